package survey_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/survey"
)

// One survey of all structures. A program that keeps running calls Run, which surveys again
// and again, and reads View.
func Example() {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	client, err := dial.Redis(context.Background(), "redis://"+redis.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	orders, err := fairqueue.New(client, "orders", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := orders.Write(ctx, fairqueue.Draft{Tenant: "acme"}); err != nil {
		log.Fatal(err)
	}

	s, err := survey.New(survey.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	view, err := s.Refresh(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range view.Queues {
		fmt.Println(q.Name, q.Waiting)
	}
	// Output: orders 1
}
