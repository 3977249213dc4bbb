package parts_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	server := miniredis.NewMiniRedis() // stands for the servers of a Cluster
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := dial.Redis(ctx, "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	jobs, err := parts.New(parts.Config{Parts: parts.On(client, "jobs", 8), Timeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := jobs.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("acme has", len(jobs.PartsOf("acme")), "of", len(jobs.Parts()), "parts")
	_ = jobs.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, m fairqueue.Message) error {
		fmt.Printf("%s says %s\n", m.Tenant, m.Body)
		cancel() // a worker would go on
		return nil
	})
	// Output:
	// acme has 2 of 8 parts
	// acme says hello
}
