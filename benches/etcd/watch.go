// Measures the watches of etcd as `slateberg-bench watch` measures the change feed: the delay from
// the response to a put until each watcher has the event.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	watchedKey   = "watched"
	eventTimeout = time.Minute
)

// The result for one number of watchers, with the names that `slateberg-bench` uses.
type watchRow struct {
	Server           string  `json:"server"`
	Scenario         string  `json:"scenario"`
	Watchers         int     `json:"watchers"`
	Connections      int     `json:"connections"`
	Events           int     `json:"events"`
	DelayP50Us       int64   `json:"delay_p50_us"`
	DelayP99Us       int64   `json:"delay_p99_us"`
	DelayMaxUs       int64   `json:"delay_max_us"`
	Commits          int     `json:"commits"`
	CommitP50Us      int64   `json:"commit_p50_us"`
	CommitP99Us      int64   `json:"commit_p99_us"`
	RssKibPerWatcher float64 `json:"rss_kib_per_watcher"`
}

// Measures each number of watchers in a list such as "1,100", and writes the results.
func measureWatches(endpoints []string, pids []int, watchers string, connections, commits int, out io.Writer) {
	for _, text := range strings.Split(watchers, ",") {
		count, err := strconv.Atoi(text)
		check(err)
		line := measureWatch(endpoints, pids, count, connections, commits)
		text, err := json.Marshal(line)
		check(err)
		_, err = out.Write(append(text, '\n'))
		check(err)
		fmt.Printf("etcd  %6d watchers  delay p50 %d us  p99 %d us  put p50 %d us  %.1f KiB for each watcher\n",
			count, line.DelayP50Us, line.DelayP99Us, line.CommitP50Us, line.RssKibPerWatcher)
	}
}

func measureWatch(endpoints []string, pids []int, watchers, connections, commits int) watchRow {
	ctx, cancel := context.WithCancel(context.Background())
	pool := connect(endpoints, max(min(watchers, connections), 1))
	defer func() {
		cancel()
		for _, client := range pool {
			check(client.Close())
		}
	}()
	before, _ := memoryMib(pids)
	arrivals := make(chan time.Time, max(watchers, 1))
	for number := range watchers {
		events := pool[number%len(pool)].Watch(ctx, watchedKey, clientv3.WithCreatedNotify())
		if created := <-events; !created.Created {
			check(fmt.Errorf("the watch was not created: %v", created.Err()))
		}
		go func() {
			for response := range events {
				now := time.Now()
				for range response.Events {
					arrivals <- now
				}
			}
		}()
	}
	after, _ := memoryMib(pids)
	value := strings.Repeat("v", valueBytes)
	var delays, puts []time.Duration
	for range commits {
		began := time.Now()
		_, err := pool[0].Put(ctx, watchedKey, value)
		check(err)
		committed := time.Now()
		puts = append(puts, committed.Sub(began))
		for range watchers {
			select {
			case arrived := <-arrivals:
				delays = append(delays, max(arrived.Sub(committed), 0))
			case <-time.After(eventTimeout):
				check(fmt.Errorf("a watcher did not get the event of a put"))
			}
		}
	}
	slices.Sort(delays)
	slices.Sort(puts)
	return watchRow{
		Server: "etcd", Scenario: "watch", Watchers: watchers, Connections: len(pool),
		Events: len(delays), DelayP50Us: quantileUs(delays, 0.5), DelayP99Us: quantileUs(delays, 0.99),
		DelayMaxUs: quantileUs(delays, 1), Commits: len(puts),
		CommitP50Us: quantileUs(puts, 0.5), CommitP99Us: quantileUs(puts, 0.99),
		RssKibPerWatcher: (after - before) * 1024 / float64(max(watchers, 1)),
	}
}

func quantileUs(sorted []time.Duration, q float64) int64 {
	return quantile(sorted, q).Microseconds()
}
