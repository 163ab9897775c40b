// Command plans plans scans with iceberg-go: once by itself, and once by the server.
//
// It reads lines of JSON such as {"table": "orders", "filter": {...}} from standard input. For each of them, it writes
// a line with both plans. A plan has the delete files of each data file, or the error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

type scan struct {
	Table  string          `json:"table"`
	Filter json.RawMessage `json:"filter"`
}

type plan struct {
	Files map[string][]string `json:"files"`
	Error string              `json:"error,omitempty"`
}

type plans struct {
	Local  plan `json:"local"`
	Remote plan `json:"remote"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plans URI NAMESPACE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "plans:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, uri, namespace string) error {
	catalog, err := rest.NewCatalog(ctx, "plans", uri)
	if err != nil {
		return err
	}
	tables := map[string]*table.Table{}
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked scan
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		if tables[asked.Table] == nil {
			loaded, err := catalog.LoadTable(ctx, table.Identifier{namespace, asked.Table})
			if err != nil {
				return err
			}
			tables[asked.Table] = loaded
		}
		from := tables[asked.Table]
		filter, err := iceberg.ParseExpr(asked.Filter, from.Schema())
		if err != nil {
			return err
		}
		found := plans{
			Local:  planned(ctx, from, filter, table.ScanPlanningLocal),
			Remote: planned(ctx, from, filter, table.ScanPlanningRemote),
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

func planned(ctx context.Context, from *table.Table, filter iceberg.BooleanExpression, mode table.ScanPlanningMode) plan {
	scan := from.Scan(table.WithRowFilter(filter), table.WithScanPlanningMode(mode))
	defer scan.Close()
	tasks, err := scan.PlanFiles(ctx)
	if err != nil {
		return plan{Error: err.Error()}
	}
	files := map[string][]string{}
	for _, task := range tasks {
		deletes := []string{}
		for _, file := range slices.Concat(task.DeleteFiles, task.EqualityDeleteFiles, task.DeletionVectorFiles) {
			deletes = append(deletes, file.FilePath())
		}
		slices.Sort(deletes)
		files[task.File.FilePath()] = deletes
	}
	return plan{Files: files}
}
