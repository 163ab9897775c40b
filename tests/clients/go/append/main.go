// Command append is a writer with iceberg-go: `append URI KEY TABLE ID...` commits a row for each id.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: append URI KEY TABLE ID...")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "append:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, uri, key, name string, ids []string) error {
	catalog, err := rest.NewCatalog(ctx, "lake", uri, rest.WithOAuthToken(key))
	if err != nil {
		return err
	}
	table, err := catalog.LoadTable(ctx, strings.Split(name, "."))
	if err != nil {
		return err
	}
	for _, word := range ids {
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		if table, err = table.AppendTable(ctx, row(id), 1, nil); err != nil {
			return err
		}
	}
	return nil
}

func row(id int64) arrow.Table {
	builder := array.NewInt64Builder(memory.DefaultAllocator)
	builder.Append(id)
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{builder.NewArray()}, 1)
	return array.NewTableFromRecords(schema, []arrow.RecordBatch{batch})
}
