// Quickstart marks documents as changed and brings their copies in line.
package main

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
)

func main() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		panic(err)
	}
	dirty, _ := ick.New(client, "documents", ick.Config{})

	ctx, cancel := context.WithCancel(context.Background())
	dirty.AddNow(ctx, "doc:1", "doc:2", "doc:1") // wherever a document changes

	// In the indexer. What a handler finished is committed; what changes meanwhile comes again.
	err = dirty.Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
		for _, e := range batch {
			fmt.Println("bring in line:", e.Member)
		}
		cancel() // an indexer would go on
		return nil
	})
	fmt.Println(err)
}
