package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/millracetest"
)

func Example_producer() {
	t := newT() // in a test it is there
	defer t.end()

	queue, _ := fairqueue.New(millracetest.Redis(t), "orders", fairqueue.Config{})
	orders := fairqueue.Typed[map[string]any]{Queue: queue}
	if _, err := orders.Write(t.Context(), map[string]any{"item": "nuts", "count": 3}, fairqueue.Draft{Tenant: "acme"}); err != nil {
		t.Fatalf("%v", err)
	}

	msg := millracetest.WantMessage(t, queue, millracetest.Match{Tenant: "acme", Body: map[string]any{"item": "nuts", "count": 3}})
	fmt.Printf("%s\n", msg.Body)
	// Output: {"count":3,"item":"nuts"}
}

func ExampleRunUntilEmpty() {
	t := newT() // in a test it is there
	defer t.end()

	queue, _ := fairqueue.New(millracetest.Redis(t), "orders", fairqueue.Config{})
	if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "acme", Body: []byte("nuts")}); err != nil {
		t.Fatalf("%v", err)
	}
	handler := func(_ context.Context, msg fairqueue.Message) error {
		fmt.Printf("%s for %s\n", msg.Body, msg.Tenant)
		return nil
	}

	got := millracetest.RunUntilEmpty(t, queue, handler, millracetest.RunConfig{})
	millracetest.WantCounts(t, queue, millracetest.Counts{}) // nothing is left
	fmt.Println(len(got.Handled), "handled")
	// Output:
	// nuts for acme
	// 1 handled
}

// Five attempts take half a minute of the server's clock, and no time of the test's.
func ExampleRunUntilEmpty_retries() {
	t := newT() // in a test it is there
	defer t.end()

	server := millracetest.Start(t, millracetest.Mini)
	queue, _ := fairqueue.New(server.Client, "orders", fairqueue.Config{MaxAttempts: 5, Logger: quiet})
	if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "acme"}); err != nil {
		t.Fatalf("%v", err)
	}
	handler := func(context.Context, fairqueue.Message) error { return errors.New("the printer is out of paper") }

	got := millracetest.RunUntilEmpty(t, queue, handler, millracetest.RunConfig{Within: time.Hour, Clock: server})
	fmt.Println(len(got.Failed), "failed deliveries;", len(got.Dead), "dead:", got.Dead[0].Reason)
	// Output: 5 failed deliveries; 1 dead: the printer is out of paper
}

func ExampleServer_Advance() {
	t := newT() // in a test it is there
	defer t.end()

	server := millracetest.Start(t, millracetest.Mini)
	locker, _ := lease.New(server.Client, lease.Config{})
	if _, err := locker.Acquire(t.Context(), "import", time.Minute, lease.AcquireConfig{}); err != nil {
		t.Fatalf("%v", err)
	}
	millracetest.WantHeld(t, locker, "import")
	server.Advance(time.Minute) // its holder died
	millracetest.WantFree(t, locker, "import")
	_, err := locker.Acquire(t.Context(), "import", time.Minute, lease.AcquireConfig{})
	fmt.Println("taken over:", err == nil)
	// Output: taken over: true
}

func ExampleRunUntilClean() {
	t := newT() // in a test it is there
	defer t.end()

	client := millracetest.Redis(t)
	docs, _ := ick.New(client, "docs", ick.Config{})
	if _, err := docs.AddNow(t.Context(), "readme", "guide", "readme"); err != nil {
		t.Fatalf("%v", err)
	}
	millracetest.WantDirty(t, client, docs, "guide", "readme")

	index := func(context.Context, []ick.Entry) error { return nil } // the program's
	got := millracetest.RunUntilClean(t, docs, index, millracetest.CleanConfig{})
	millracetest.WantDirty(t, client, docs) // nothing is left
	fmt.Println(len(got.Batches[0].Members), "members in", len(got.Batches), "batch")
	// Output: 2 members in 1 batch
}
