package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fetch"
)

// connect stands for the client that a program has anyway.
func connect() (rueidis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}

type Report struct {
	Title string
	Pages int
}

func ExampleGet() {
	client, closeAll := connect()
	defer closeAll()
	ctx := context.Background()
	reports, err := fetch.Open(ctx, client, "reports", fetch.Config{TTL: time.Hour, Stale: 10 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	// Ten requests want a value that takes long to compute.
	var requests sync.WaitGroup
	for range 10 {
		requests.Go(func() {
			report, _, err := fetch.Get(ctx, reports, "2024/q3", func(ctx context.Context) (Report, error) {
				return Report{Title: "Third quarter", Pages: 42}, ctx.Err() // after minutes of SQL
			})
			if err != nil || report.Pages != 42 {
				log.Fatal(report, err)
			}
		})
	}
	requests.Wait()
	fmt.Println("computed:", reports.Stats().Loads)
	// Output:
	// computed: 1
}

func ExampleGet_outcome() {
	client, closeAll := connect()
	defer closeAll()
	ctx := context.Background()
	users, err := fetch.Open(ctx, client, "users", fetch.Config{Negative: time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	// load returns millrace.ErrNotFound for an unknown user, and that is remembered for a minute.
	load := func(id string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			if id != "42" {
				return "", millrace.ErrNotFound
			}
			return "Ada", nil
		}
	}
	for _, id := range []string{"42", "42", "7", "7"} {
		user, from, err := fetch.Get(ctx, users, id, load(id))
		fmt.Printf("%s: %q %v, there is none: %v\n", id, user, from.Outcome, errors.Is(err, millrace.ErrNotFound))
	}
	// Output:
	// 42: "Ada" miss, there is none: false
	// 42: "Ada" hit, there is none: false
	// 7: "" miss, there is none: true
	// 7: "" negative, there is none: true
}

func ExampleCache_Forget() {
	client, closeAll := connect()
	defer closeAll()
	ctx := context.Background()
	prices, err := fetch.Open(ctx, client, "prices", fetch.Config{})
	if err != nil {
		log.Fatal(err)
	}

	price := 10 // as the database has it
	load := func(context.Context) (int, error) { return price, nil }
	show := func() {
		p, _, err := fetch.Get(ctx, prices, "apple", load)
		fmt.Println(p, err)
	}
	show()
	price = 12
	show()
	if err := prices.Forget(ctx, "apple"); err != nil { // after the database has the new one
		log.Fatal(err)
	}
	show()
	// Output:
	// 10 <nil>
	// 10 <nil>
	// 12 <nil>
}
