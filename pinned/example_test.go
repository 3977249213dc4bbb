package pinned_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/pinned"
)

// openKeys opens a namespace on a server of its own, which stands for the one
// that a program has anyway.
func open() (*pinned.Keys, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	keys, err := pinned.Open(context.Background(), client, "sessions", pinned.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return keys, func() {
		client.Close()
		server.Close()
	}
}

// A value is there until its time, whatever else fills the server, and gone then.
func ExampleKeys() {
	keys, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "session:7", []byte("alice"), time.Hour, pinned.SetConfig{}); err != nil {
		log.Fatal(err)
	}
	value, ttl, err := keys.Get(ctx, "session:7")
	fmt.Printf("%s for an hour: %v, %v\n", value, ttl > 59*time.Minute, err)

	removed, err := keys.Remove(ctx, "session:7")
	fmt.Println("removed:", removed, err)
	_, _, err = keys.Get(ctx, "session:7")
	fmt.Println("gone:", errors.Is(err, millrace.ErrNotFound))
	// Output:
	// alice for an hour: true, <nil>
	// removed: 1 <nil>
	// gone: true
}

// With a condition, one of many writers wins.
func ExampleKeys_Set() {
	keys, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	for _, host := range []string{"a", "b"} {
		won, err := keys.Set(ctx, "report:2031-05", []byte("host "+host), time.Hour, pinned.SetConfig{IfNone: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("host", host, "writes the report:", won)
	}
	// Output:
	// host a writes the report: true
	// host b writes the report: false
}

// A session lives for as long as it is used.
func ExampleKeys_Expire() {
	keys, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "session:7", []byte("alice"), time.Minute, pinned.SetConfig{}); err != nil {
		log.Fatal(err)
	}
	there, err := keys.Expire(ctx, "session:7", time.Hour)
	fmt.Println("prolonged:", there, err)
	there, err = keys.Expire(ctx, "session:8", time.Hour)
	fmt.Println("prolonged:", there, err)
	// Output:
	// prolonged: true <nil>
	// prolonged: false <nil>
}

// A program without a recruiter can reap by itself.
func ExampleKeys_Jobs() {
	keys, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "brief", []byte("x"), time.Millisecond, pinned.SetConfig{}); err != nil {
		log.Fatal(err)
	}
	for stats := (pinned.Stats{}); stats.Reaped == 0; {
		if _, err := keys.Jobs()[0].Slice(ctx); err != nil {
			log.Fatal(err)
		}
		var err error
		if stats, err = keys.Stats(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("its memory is free")
	// Output: its memory is free
}
