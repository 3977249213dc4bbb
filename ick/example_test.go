package ick_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/ick"
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

func open(client rueidis.Client) *ick.Ick {
	dirty, err := ick.New(client, "documents", ick.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return dirty
}

func Example() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx, cancel := context.WithCancel(context.Background())

	// Wherever a document changes:
	for _, id := range []string{"doc:1", "doc:2", "doc:1"} {
		if _, err := dirty.AddNow(ctx, id); err != nil {
			log.Fatal(err)
		}
	}

	// In the indexer:
	err := dirty.Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
		for _, e := range batch {
			fmt.Println("bring in line:", e.Member)
		}
		cancel() // an indexer would go on
		return nil
	})
	fmt.Println(err)
	// Output:
	// bring in line: doc:1
	// bring in line: doc:2
	// context canceled
}

func ExampleIck_Add() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx := context.Background()

	for _, score := range []float64{20, 30, 10} {
		added, err := dirty.Add(ctx, ick.Entry{Member: "doc:1", Score: score})
		fmt.Printf("%+v %v\n", added, err)
	}
	// Output:
	// {New:1 Lowered:0} <nil>
	// {New:0 Lowered:0} <nil>
	// {New:0 Lowered:1} <nil>
}

func ExampleIck_AddNow() {
	client, closeAll := connect()
	defer closeAll()

	// From any number of goroutines; those that add at the same time share calls.
	added, err := open(client).AddNow(context.Background(), "doc:1", "doc:2", "doc:1")
	fmt.Printf("%+v %v\n", added, err)
	// Output: {New:2 Lowered:0} <nil>
}

func ExampleIck_Commit() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx := context.Background()

	_, _ = dirty.Add(ctx, ick.Entry{Member: "doc:1", Score: 1})
	first, _ := dirty.Reserve(ctx, 10)
	// While the first consumer works, the document changes again, and a second
	// consumer, or the first one after a restart, reserves.
	_, _ = dirty.Add(ctx, ick.Entry{Member: "doc:1", Score: 2})
	second, _ := dirty.Reserve(ctx, 10)

	_, err := dirty.Commit(ctx, first.Token, first.Members()...)
	fmt.Println(errors.Is(err, millrace.ErrStale), err)
	done, err := dirty.Commit(ctx, second.Token, second.Members()...)
	fmt.Printf("%+v %v\n", done, err)
	// Output:
	// true no member could be committed under this token
	// {Committed:1 Kept:0} <nil>
}

func ExampleIck_Exchange() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx := context.Background()
	_, _ = dirty.Add(ctx, ick.Entry{Member: "a", Score: 1}, ick.Entry{Member: "b", Score: 2}, ick.Entry{Member: "c", Score: 3})

	var batch ick.Reservation
	for {
		next, done, err := dirty.Exchange(ctx, batch.Token, batch.Members(), 2)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(done.Committed, "committed, now:", next.Members())
		if batch = next; len(batch.Entries) == 0 {
			return
		}
	}
	// Output:
	// 0 committed, now: [a b]
	// 2 committed, now: [c]
	// 1 committed, now: []
}

func ExampleFailed() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx, cancel := context.WithCancel(context.Background())
	_, _ = dirty.Add(ctx, ick.Entry{Member: "good", Score: 1}, ick.Entry{Member: "poison", Score: 2})

	_ = dirty.Consume(ctx, ick.ConsumeConfig{MaxAttempts: 1}, func(context.Context, []ick.Entry) error {
		cancel()
		return ick.Failed(errors.New("the index refuses it"), "poison")
	})
	for p, err := range dirty.Parked(context.Background()) {
		fmt.Println(p.Member, p.Attempts, p.Reason, err)
	}
	// Output: poison 1 the index refuses it <nil>
}

func ExampleIck_Stats() {
	client, closeAll := connect()
	defer closeAll()
	dirty := open(client)
	ctx := context.Background()
	_, _ = dirty.Add(ctx, ick.Entry{Member: "a", Score: 1}, ick.Entry{Member: "b", Score: 2})
	_, _ = dirty.Reserve(ctx, 1)

	s, err := dirty.Stats(ctx)
	fmt.Println(s.Waiting.Size, "wait,", s.Reserved.Size, "reserved, oldest:", min(s.Waiting.Oldest, s.Reserved.Oldest), err)
	// Output: 1 wait, 1 reserved, oldest: 1 <nil>
}

func ExampleList() {
	client, closeAll := connect()
	defer closeAll()
	_, _ = open(client).AddNow(context.Background(), "doc:1")
	for name, err := range ick.List(context.Background(), client) {
		fmt.Println(name, err)
	}
	// Output: documents <nil>
}
