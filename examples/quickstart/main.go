// Quickstart writes messages of two tenants into a queue and handles them.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

func main() {
	ctx := context.Background()
	client, err := dial.Redis(ctx, "redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	queue, err := fairqueue.New(client, "webhooks", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 { // one customer floods the queue
		if _, err := queue.Write(ctx, fairqueue.Draft{Tenant: "globex", Body: fmt.Appendf(nil, "event %d", i)}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := queue.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	// acme's message is among the first two, and not the last. An error from the handler retries the message after a backoff.
	log.Fatal(queue.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, m fairqueue.Message) error {
		fmt.Printf("%s: %s\n", m.Tenant, m.Body)
		return nil
	}))
}
