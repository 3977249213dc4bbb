package expiry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/expiry"
)

// openHashes stands for the client that a program has anyway, and opens a
// namespace of hashes on it.
func open() (*expiry.Hashes, rueidis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	hashes, err := expiry.Open(context.Background(), client, "sessions", expiry.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return hashes, client, func() {
		client.Close()
		server.Close()
	}
}

func ExampleOpen() {
	hashes, client, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	if _, err := hashes.Set(ctx, "user:7", "phone", []byte("token-1"), expiry.SetConfig{TTL: time.Hour}); err != nil {
		log.Fatal(err)
	}
	for namespace, err := range expiry.List(ctx, client) {
		fmt.Println(namespace, err)
	}
	for name, err := range hashes.Names(ctx) {
		fmt.Println(name, err)
	}
	// Output:
	// sessions <nil>
	// user:7 <nil>
}

func ExampleHashes_Set() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	set := func(cfg expiry.SetConfig) {
		result, err := hashes.Set(ctx, "user:7", "phone", []byte("token"), cfg)
		fmt.Printf("%+v %v\n", result, err)
	}
	set(expiry.SetConfig{TTL: time.Hour})
	set(expiry.SetConfig{IfNone: true})
	set(expiry.SetConfig{KeepTTL: true})
	set(expiry.SetConfig{Deadline: time.Now().Add(-time.Second)}) // set, and gone
	set(expiry.SetConfig{IfExist: true})
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
	// true <nil>
	// false <nil>
}

func ExampleHashes_Get() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, _ = hashes.Set(ctx, "user:7", "phone", []byte("token"), expiry.SetConfig{TTL: time.Hour})
	value, ttl, err := hashes.Get(ctx, "user:7", "phone")
	fmt.Println(string(value), ttl > 59*time.Minute, err)
	_, _, err = hashes.Get(ctx, "user:7", "laptop")
	fmt.Println(errors.Is(err, millrace.ErrNotFound))
	// Output:
	// token true <nil>
	// true
}

func ExampleHashes_GetAll() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	fields := map[string][]byte{"phone": []byte("token-1"), "laptop": []byte("token-2"), "tv": []byte("token-3")}
	if _, err := hashes.SetMany(ctx, "user:7", fields, expiry.SetConfig{TTL: time.Hour}); err != nil {
		log.Fatal(err)
	}
	all, err := hashes.GetAll(ctx, "user:7")
	fmt.Println(len(all), string(all["laptop"]), err)
	some, err := hashes.GetMany(ctx, "user:7", "tv", "radio")
	fmt.Println(len(some), string(some["tv"].Value), err)
	n, err := hashes.Len(ctx, "user:7")
	fmt.Println(n, err)

	var names []string
	for field, err := range hashes.Scan(ctx, "user:7") { // of any size
		if err != nil {
			log.Fatal(err)
		}
		names = append(names, field.Name)
	}
	slices.Sort(names)
	fmt.Println(names)
	// Output:
	// 3 token-2 <nil>
	// 1 token-3 <nil>
	// 3 <nil>
	// [laptop phone tv]
}

func ExampleHashes_Expire() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, _ = hashes.Set(ctx, "user:7", "phone", []byte("token"), expiry.SetConfig{})
	fmt.Println(hashes.Expire(ctx, "user:7", time.Hour, expiry.ExpireConfig{}, "phone", "radio"))
	fmt.Println(hashes.Expire(ctx, "user:7", time.Minute, expiry.ExpireConfig{IfLonger: true}, "phone"))
	fmt.Println(hashes.Expire(ctx, "user:7", expiry.NoTTL, expiry.ExpireConfig{}, "phone"))
	_, ttl, err := hashes.Get(ctx, "user:7", "phone")
	fmt.Println(ttl == expiry.NoTTL, err)
	fmt.Println(hashes.Expire(ctx, "user:7", 0, expiry.ExpireConfig{Deadline: time.Now().Add(-time.Second)}, "phone"))
	// Output:
	// [1 -2] <nil>
	// [0] <nil>
	// [1] <nil>
	// true <nil>
	// [2] <nil>
}

func ExampleHashes_Incr() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	fmt.Println(hashes.Incr(ctx, "user:7", "logins", 1))
	fmt.Println(hashes.Incr(ctx, "user:7", "logins", 41))
	// Output:
	// 1 <nil>
	// 42 <nil>
}

func ExampleHashes_Remove() {
	hashes, _, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, _ = hashes.SetMany(ctx, "user:7", map[string][]byte{"phone": nil, "tv": nil}, expiry.SetConfig{})
	fmt.Println(hashes.Remove(ctx, "user:7", "phone", "radio"))
	fmt.Println(hashes.RemoveHash(ctx, "user:7"))
	fmt.Println(hashes.RemoveHash(ctx, "user:7"))
	// Output:
	// 1 <nil>
	// true <nil>
	// false <nil>
}

func ExampleHashes_Jobs() {
	hashes, client, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, _ = hashes.Set(ctx, "user:7", "phone", []byte("token"), expiry.SetConfig{TTL: time.Millisecond})
	for stats := (expiry.Stats{}); stats.Overdue == 0; {
		stats, _ = hashes.Stats(ctx)
	}

	// A recruiter of package steal runs jobs in idle moments; here they run by hand.
	fmt.Println(hashes.Jobs()[0].Slice(ctx))
	fmt.Println(expiry.Jobs(client)[0].Slice(ctx))
	stats, err := hashes.Stats(ctx)
	fmt.Println(stats.Shards, stats.Hashes, stats.Reaped, err)
	// Output:
	// worked <nil>
	// idle <nil>
	// 16 0 1 <nil>
}
