// Measures etcd in the key-value steps of `slateberg-bench run --scenario kv`, and appends results
// in the same format, so that one table can contain both:
//
//	etcd-kv --endpoint http://127.0.0.1:2379 --pid PID --seconds 5 --round 1 --json FILE
//
// With `--watchers 1,100`, measures the watches of etcd instead. With several endpoints, the
// connections go to the endpoints in turn.
//
// Reads are linearizable, which is etcd's default, except in the steps with stale reads, which are
// serializable. Percentiles are computed from all latencies, not from a histogram.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	valueBytes = 256
	// Number of keys that puts and gets use repeatedly.
	keys = 1_000
	// Number of keys in one range.
	rangeKeys = 100
	// Number of keys for the step that deletes keys. The step ends early when no key is left.
	doomedKeys = 50_000
	// Number of puts in one transaction of the preparation; etcd's limit is 128.
	putsPerTransaction = 100
)

// A step: a number of clients share a number of connections, and repeat a call until the time is
// over. The call gets the number of its client and a counter. It returns false if nothing is left
// to do.
type step struct {
	name        string
	connections int
	clients     int
	call        func(kv *clientv3.Client, client, count int) (bool, error)
}

// The result of a step, with the names that `slateberg-bench` uses.
type row struct {
	Server            string            `json:"server"`
	Scenario          string            `json:"scenario"`
	Parameter         map[string]string `json:"parameter"`
	Clients           int               `json:"clients"`
	Round             int               `json:"round"`
	Requests          int               `json:"requests"`
	Failures          int64             `json:"failures"`
	ElapsedS          float64           `json:"elapsed_s"`
	Throughput        float64           `json:"throughput"`
	MeanUs            float64           `json:"mean_us"`
	P50Us             float64           `json:"p50_us"`
	P95Us             float64           `json:"p95_us"`
	P99Us             float64           `json:"p99_us"`
	MaxUs             float64           `json:"max_us"`
	CPUUsPerRequest   float64           `json:"cpu_us_per_request"`
	CPUSecondsPer1000 float64           `json:"cpu_seconds_per_1000"`
	RssMib            float64           `json:"rss_mib"`
	PeakMib           float64           `json:"peak_mib"`
	Extra             map[string]any    `json:"extra"`
}

func main() {
	server := flag.String("name", "etcd", "name of the server in the results")
	endpoint := flag.String("endpoint", "http://127.0.0.1:2379", "client URLs of etcd, separated by commas")
	pid := flag.String("pid", "", "process ids of etcd, separated by commas")
	seconds := flag.Float64("seconds", 5, "duration of a step, in seconds")
	warmUp := flag.Float64("warm-up-seconds", 1, "duration of the warm-up before a step, in seconds")
	round := flag.Int("round", 1, "number of the round")
	only := flag.String("steps", "seq_put,par_put,put_1000,seq_get,par_get,range,delete,mixed", "names of the steps, separated by commas")
	watchers := flag.String("watchers", "", "measure watches instead of the steps: numbers of watchers, separated by commas")
	connections := flag.Int("connections", 100, "maximum number of connections that the watchers share")
	commits := flag.Int("commits", 1000, "number of puts for each number of watchers")
	file := flag.String("json", "", "file to which the results are appended")
	flag.Parse()

	out, err := os.OpenFile(*file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	defer out.Close()

	endpoints, pids := strings.Split(*endpoint, ","), parsePids(*pid)
	if *watchers != "" {
		measureWatches(endpoints, pids, *watchers, *connections, *commits, out)
		return
	}
	pool := connect(endpoints, 100)
	fill(pool[0], "key", keys)
	for _, it := range steps() {
		if !slices.Contains(strings.Split(*only, ","), it.name) {
			continue
		}
		if it.name == "delete" {
			fill(pool[0], "doomed", doomedKeys)
		} else if *warmUp > 0 {
			drive(pool, it, time.Duration(*warmUp*float64(time.Second)))
		}
		before := cpuSeconds(pids)
		latencies, failures, elapsed := drive(pool, it, time.Duration(*seconds*float64(time.Second)))
		cpu := cpuSeconds(pids) - before
		line := summary(it, latencies, failures, elapsed, cpu)
		line.Server, line.Round = *server, *round
		line.RssMib, line.PeakMib = memoryMib(pids)
		text, err := json.Marshal(line)
		check(err)
		_, err = out.Write(append(text, '\n'))
		check(err)
		fmt.Printf("%s  %-13s %5d clients %9.0f/s  p50 %.2f ms  p99 %.2f ms  %d failed\n",
			*server, it.name, it.clients, line.Throughput, line.P50Us/1000, line.P99Us/1000, failures)
	}
}

func steps() []step {
	value := strings.Repeat("v", valueBytes)
	ctx := context.Background()
	put := func(kv *clientv3.Client, _, _ int) (bool, error) {
		_, err := kv.Put(ctx, name("key", rand.IntN(keys)), value)
		return true, err
	}
	read := func(kv *clientv3.Client, options ...clientv3.OpOption) (bool, error) {
		got, err := kv.Get(ctx, name("key", rand.IntN(keys)), options...)
		if err == nil && len(got.Kvs) != 1 {
			err = fmt.Errorf("got %d values", len(got.Kvs))
		}
		return true, err
	}
	get := func(kv *clientv3.Client, _, _ int) (bool, error) { return read(kv) }
	getStale := func(kv *clientv3.Client, _, _ int) (bool, error) {
		return read(kv, clientv3.WithSerializable())
	}
	scan := func(kv *clientv3.Client, _, _ int) (bool, error) {
		first := rand.IntN(keys - rangeKeys)
		got, err := kv.Get(ctx, name("key", first), clientv3.WithRange(name("key", first+rangeKeys)))
		if err == nil && len(got.Kvs) != rangeKeys {
			err = fmt.Errorf("got %d values", len(got.Kvs))
		}
		return true, err
	}
	remove := func(kv *clientv3.Client, _, count int) (bool, error) {
		if count >= doomedKeys {
			return false, nil
		}
		_, err := kv.Delete(ctx, name("doomed", count))
		return true, err
	}
	mixed := func(kv *clientv3.Client, client, count int) (bool, error) {
		if count%2 == 0 {
			return put(kv, client, count)
		}
		return get(kv, client, count)
	}
	return []step{
		{"seq_put", 1, 1, put},
		{"par_put", 16, 16, put},
		{"put_1000", 100, 1000, put},
		{"seq_get", 1, 1, get},
		{"par_get", 16, 16, get},
		{"range", 1, 1, scan},
		{"delete", 1, 1, remove},
		{"mixed", 16, 16, mixed},
		{"seq_get_stale", 1, 1, getStale},
		{"par_get_stale", 16, 16, getStale},
	}
}

// Lets all clients of a step repeat their call for this time. Returns the latencies of successful
// calls, the number of failed calls, and the elapsed time.
func drive(pool []*clientv3.Client, it step, length time.Duration) ([]time.Duration, int64, time.Duration) {
	var failures atomic.Int64
	seen := make([][]time.Duration, it.clients)
	var clients sync.WaitGroup
	began := time.Now()
	for client := range it.clients {
		clients.Go(func() {
			kv := pool[client%it.connections]
			for count := 0; time.Since(began) < length; count++ {
				asked := time.Now()
				some, err := it.call(kv, client, count)
				if !some {
					return
				}
				if err != nil {
					if failures.Add(1) == 1 {
						log.Printf("%s: %v", it.name, err)
					}
					continue
				}
				seen[client] = append(seen[client], time.Since(asked))
			}
		})
	}
	clients.Wait()
	return slices.Concat(seen...), failures.Load(), time.Since(began)
}

func summary(it step, latencies []time.Duration, failures int64, elapsed time.Duration, cpu float64) row {
	slices.Sort(latencies)
	requests := max(len(latencies), 1)
	var total time.Duration
	for _, latency := range latencies {
		total += latency
	}
	us := func(latency time.Duration) float64 { return float64(latency) / 1000 }
	return row{
		Scenario: "kv", Parameter: map[string]string{"operation": it.name},
		Clients: it.clients, Requests: len(latencies), Failures: failures,
		ElapsedS: elapsed.Seconds(), Throughput: float64(len(latencies)) / elapsed.Seconds(),
		MeanUs: us(total) / float64(requests),
		P50Us:  us(quantile(latencies, 0.5)), P95Us: us(quantile(latencies, 0.95)),
		P99Us: us(quantile(latencies, 0.99)), MaxUs: us(quantile(latencies, 1)),
		CPUUsPerRequest: cpu * 1e6 / float64(requests), CPUSecondsPer1000: cpu * 1000 / float64(requests),
		Extra: map[string]any{"connections": it.connections, "value_bytes": valueBytes},
	}
}

// Returns a quantile of sorted latencies. 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Opens connections. The endpoints get them in turn.
func connect(endpoints []string, connections int) []*clientv3.Client {
	pool := make([]*clientv3.Client, connections)
	for i := range pool {
		endpoint := endpoints[i%len(endpoints)]
		config := clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second}
		client, err := clientv3.New(config)
		check(err)
		pool[i] = client
	}
	return pool
}

// Puts the keys 0 to count, with many keys in one transaction.
func fill(kv *clientv3.Client, prefix string, count int) {
	value := strings.Repeat("v", valueBytes)
	for from := 0; from < count; from += putsPerTransaction {
		var puts []clientv3.Op
		for number := from; number < min(from+putsPerTransaction, count); number++ {
			puts = append(puts, clientv3.OpPut(name(prefix, number), value))
		}
		_, err := kv.Txn(context.Background()).Then(puts...).Commit()
		check(err)
	}
}

func name(prefix string, number int) string { return fmt.Sprintf("%s/%08d", prefix, number) }

// Parses process ids such as "12,13".
func parsePids(text string) []int {
	var pids []int
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		pid, err := strconv.Atoi(word)
		check(err)
		pids = append(pids, pid)
	}
	return pids
}

// Returns the user and system time that some processes have used so far.
func cpuSeconds(pids []int) float64 {
	var total float64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name is in parentheses and may contain spaces. utime and stime are fields 14 and 15
		// of proc(5).
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		var user, system float64
		fmt.Sscan(fields[11], &user)
		fmt.Sscan(fields[12], &system)
		const ticksPerSecond = 100
		total += (user + system) / ticksPerSecond
	}
	return total
}

// Returns the current resident memory of some processes, and the sum of their peaks.
func memoryMib(pids []int) (rss, peak float64) {
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(text)) {
			var kib float64
			if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
				rss += kib / 1024
			}
			if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
				peak += kib / 1024
			}
		}
	}
	return rss, peak
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
