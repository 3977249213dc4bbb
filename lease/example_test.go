package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/schedule/cron"
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

func open(client rueidis.Client) *lease.Locker {
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

func ExampleLocker_Do() {
	client, closeAll := connect()
	defer closeAll()
	locker := open(client)

	ran, err := locker.Do(context.Background(), "nightly-report", 30*time.Second, lease.AcquireConfig{Wait: -1}, func(ctx context.Context, fence int64) error {
		// Work under ctx, and pass the fence to every store that you write to.
		fmt.Println("working, with a fence:", fence > 0, ctx.Err())
		return nil
	})
	fmt.Println(ran, err)
	// Output:
	// working, with a fence: true <nil>
	// true <nil>
}

// Each of three replicas calls this once a minute. The report of the day is made once, after three
// o'clock in the morning. If it fails, or its replica dies, another minute's call makes it.
func ExampleLocker_Once() {
	client, closeAll := connect()
	defer closeAll()
	locker := open(client)
	night, err := cron.Parse("0 3 * * *", "UTC")
	if err != nil {
		log.Fatal(err)
	}

	for minute := range 3 {
		ran, err := locker.Once(context.Background(), "nightly-report", 30*time.Second, night.Next, func(_ context.Context, _ int64) error {
			if minute == 0 {
				return errors.New("the printer is out of paper")
			}
			return nil
		})
		if errors.Is(err, lease.ErrHeld) {
			continue // another replica is making it
		}
		fmt.Println("ran:", ran, "error:", err)
	}
	// Output:
	// ran: true error: the printer is out of paper
	// ran: true error: <nil>
	// ran: false error: <nil>
}

func ExampleLocker_Do_withoutWaiting() {
	client, closeAll := connect()
	defer closeAll()
	locker, ctx := open(client), context.Background()

	_, err := locker.Do(ctx, "import", 30*time.Second, lease.AcquireConfig{}, func(ctx context.Context, _ int64) error {
		ran, err := locker.Do(ctx, "import", 30*time.Second, lease.AcquireConfig{}, func(context.Context, int64) error { return nil })
		fmt.Println("the second ran:", ran, "held:", errors.Is(err, lease.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// the second ran: false held: true
	// <nil>
}

func ExampleLocker_Acquire() {
	client, closeAll := connect()
	defer closeAll()
	locker := open(client)
	ctx := context.Background()

	first, err := locker.Acquire(ctx, "import", time.Minute, lease.AcquireConfig{Metadata: "host a"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.Acquire(ctx, "import", time.Minute, lease.AcquireConfig{})
	if held, ok := lease.Holder(err); ok {
		fmt.Println("held by", held.Metadata)
	}
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}
	second, err := locker.Acquire(ctx, "import", time.Minute, lease.AcquireConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the fence grew:", second.Fence > first.Fence)
	fmt.Println("the first is lost:", errors.Is(first.Refresh(ctx, time.Minute), lease.ErrLost))
	// Output:
	// held by host a
	// the fence grew: true
	// the first is lost: true
}

func ExampleList() {
	client, closeAll := connect()
	defer closeAll()
	locker := open(client)
	ctx := context.Background()

	if _, err := locker.Acquire(ctx, "import", time.Minute, lease.AcquireConfig{Metadata: "host a"}); err != nil {
		log.Fatal(err)
	}
	for name, err := range lease.List(ctx, client) {
		if err != nil {
			log.Fatal(err)
		}
		info, err := locker.Show(ctx, name)
		fmt.Println(name, info.Held, info.Metadata, err)
	}
	// Output: import true host a <nil>
}

func ExampleLocker_Show() {
	client, closeAll := connect()
	defer closeAll()
	locker := open(client)
	ctx := context.Background()

	if _, err := locker.Acquire(ctx, "import", time.Minute, lease.AcquireConfig{Token: "job-7"}); err != nil {
		log.Fatal(err)
	}
	// Another process, which was handed the token, goes on with the lease.
	if _, err := locker.Refresh(ctx, "import", "job-7", 2*time.Minute); err != nil {
		log.Fatal(err)
	}
	info, err := locker.Show(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Held, info.Token, info.Remaining > time.Minute)
	fmt.Println(locker.Release(ctx, "import", "job-7"))
	// Output:
	// true job-7 true
	// <nil>
}

// Three licences are three leases: each has a fence of its own, and comes free by itself
// when its holder dies.
func ExampleLocker_Acquire_places() {
	client, closeAll := connect()
	defer closeAll()
	locker, ctx := open(client), context.Background()

	licence := func() (*lease.Lease, error) {
		const places = 3
		first := rand.IntN(places)
		var err error
		for i := range places {
			var held *lease.Lease
			name := fmt.Sprintf("licence/%d", (first+i)%places)
			if held, err = locker.Acquire(ctx, name, time.Minute, lease.AcquireConfig{}); !errors.Is(err, lease.ErrHeld) {
				return held, err
			}
		}
		return nil, err
	}
	for range 4 {
		_, err := licence()
		fmt.Println("all are taken:", errors.Is(err, lease.ErrHeld))
	}
	// Output:
	// all are taken: false
	// all are taken: false
	// all are taken: false
	// all are taken: true
}
