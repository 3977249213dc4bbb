package expiry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
)

// openKeys opens a namespace on a server of its own, which stands for the one
// that a program has anyway.
func openKeys() (*expiry.Keys, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	keys, err := expiry.OpenKeys(context.Background(), client, "sessions", expiry.KeysConfig{})
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
	keys, closeAll := openKeys()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "session:7", []byte("alice"), time.Hour, expiry.SetKeyConfig{}); err != nil {
		log.Fatal(err)
	}
	value, ttl, err := keys.Get(ctx, "session:7")
	fmt.Printf("%s for an hour: %v, %v\n", value, ttl > 59*time.Minute, err)

	deleted, err := keys.Delete(ctx, "session:7")
	fmt.Println("deleted:", deleted, err)
	_, _, err = keys.Get(ctx, "session:7")
	fmt.Println("gone:", errors.Is(err, millrace.ErrNotFound))
	// Output:
	// alice for an hour: true, <nil>
	// deleted: 1 <nil>
	// gone: true
}

// With a condition, one of many writers wins.
func ExampleKeys_Set() {
	keys, closeAll := openKeys()
	defer closeAll()
	ctx := context.Background()

	for _, host := range []string{"a", "b"} {
		won, err := keys.Set(ctx, "report:2031-05", []byte("host "+host), time.Hour, expiry.SetKeyConfig{IfNone: true})
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
	keys, closeAll := openKeys()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "session:7", []byte("alice"), time.Minute, expiry.SetKeyConfig{}); err != nil {
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
func ExampleKeys_ReapJob() {
	keys, closeAll := openKeys()
	defer closeAll()
	ctx := context.Background()

	if _, err := keys.Set(ctx, "brief", []byte("x"), time.Millisecond, expiry.SetKeyConfig{}); err != nil {
		log.Fatal(err)
	}
	for stats := (expiry.KeysStats{}); stats.Counters.Reaped == 0; {
		if _, err := keys.ReapJob().Slice(ctx); err != nil {
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
