package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

// start starts a fleet on this machine, and connects to it.
func start(partitions int) (*devfleet.Fleet, *fleet.Fleet, func()) {
	ctx := context.Background()
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Partitions: partitions,
		Replicas:   devfleet.NoReplicas,
		// Far from the defaults, so that the examples take less time and a busy machine
		// does not matter.
		Settings: directory.Settings{ViewTTL: 200 * time.Millisecond, ReplyTimeout: 2 * time.Second, PlacementTTL: time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	f, err := fleet.Dial(ctx, servers.URL(), fleet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return servers, f, func() {
		f.Close()
		if err := servers.Stop(); err != nil {
			log.Fatal(err)
		}
	}
}

// A fleet is one client, and a structure on it does not know that there are many
// servers.
func Example() {
	_, f, stop := start(3)
	defer stop()
	ctx := context.Background()

	queue, err := fairqueue.New(f.Client(), "mail", fairqueue.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Write(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	messages, err := queue.Read(ctx, fairqueue.ReadConfig{Max: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", messages[0].Body)

	// Keys of one tag are on one partition, and may be used together.
	c := f.Client()
	err = c.Do(ctx, c.B().Mset().KeyValue().KeyValue("{user:7}:name", "Ada").KeyValue("{user:7}:mail", "ada@example.com").Build()).Error()
	fmt.Println(err)
	err = c.Do(ctx, c.B().Mset().KeyValue().KeyValue("{user:7}:name", "Ada").KeyValue("{user:8}:name", "Bob").Build()).Error()
	fmt.Println(errors.Is(err, fleet.ErrMixedTags))
	// Output:
	// hello
	// <nil>
	// true
}

// Partitions are added while the fleet is in use. Tags that have a place stay there.
func ExampleFleet_Locate() {
	servers, f, stop := start(1)
	defer stop()
	ctx := context.Background()
	c := f.Client()
	for i := range 8 {
		if err := c.Do(ctx, c.B().Set().Key(fmt.Sprintf("{user:%d}", i)).Value("old").Build()).Error(); err != nil {
			log.Fatal(err)
		}
	}

	// The work of millrace fleet agent.
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	members := failover.NewRedis(rueidis.ClientOption{})
	defer members.Close()
	defer failover.New(dir, members, failover.Config{Logger: slog.New(slog.DiscardHandler)}).Help(ctx)()

	// It starts a server, and adds it as millrace fleet add does.
	if err := servers.AddPartition(ctx, 1); err != nil {
		log.Fatal(err)
	}
	grown, err := fleet.Dial(ctx, servers.URL(), fleet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer grown.Close()
	for i := range 5 {
		l, err := grown.Locate(ctx, fmt.Sprintf("user:%d", i))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Tag, "is on", l.Partition, l.How, l.Asked)
	}
	// Output:
	// user:0 is on 0 owner [0]
	// user:1 is on 0 owner [0]
	// user:2 is on 0 owner [0]
	// user:3 is on 0 older [1 0]
	// user:4 is on 0 older [1 0]
}

// The place of a tag that has no data any more is given up.
func ExampleFleet_Forget() {
	_, f, stop := start(2)
	defer stop()
	ctx := context.Background()
	c := f.Client()
	for _, key := range []string{"{gone}", "{here}"} {
		if err := c.Do(ctx, c.B().Set().Key(key).Value("x").Build()).Error(); err != nil {
			log.Fatal(err)
		}
	}
	if err := c.Do(ctx, c.B().Del().Key("{gone}").Build()).Error(); err != nil {
		log.Fatal(err)
	}
	used, err := f.Forget(ctx, "gone", "here")
	fmt.Println(used, errors.Is(err, fleet.ErrInUse))
	l, err := f.Locate(ctx, "gone")
	fmt.Println(l.How, err)
	// Output:
	// [here] true
	// nowhere <nil>
}

// Status is the output of millrace fleet show.
func ExampleFleet_Status() {
	_, f, stop := start(2)
	defer stop()
	status, err := f.Status(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State, len(status.Partitions))
	for _, p := range status.Partitions {
		fmt.Println(p.ID, p.State, p.Phase, p.Share, p.Tags)
	}
	// Output:
	// healthy 2
	// 0 healthy open 0.5 0
	// 1 healthy open 0.5 0
}
