package failover_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

// A master is killed. The agent replaces it, and a replica that was not chosen
// confirms the next write.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Partitions: 1, Replicas: 2,
		Settings: directory.Settings{ViewTTL: 500 * time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Stop()

	option := rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}}
	dir, err := directory.Dial(option)
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	members := failover.NewRedis(option)
	defer members.Close()
	quiet := slog.New(slog.DiscardHandler)
	agent := failover.New(dir, members, failover.Config{Interval: 100 * time.Millisecond, Logger: quiet})
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Run(ctx) }()

	f, err := fleet.Open(ctx, dir, fleet.Config{WaitReplicas: 1, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	c := f.Client()
	write := func() {
		for {
			if c.Do(ctx, c.B().Incr().Key("{user:7}:visits").Build()).Error() == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	write()
	if err := servers.Servers()[0].Proc.Kill(); err != nil {
		log.Fatal(err)
	}
	write()

	events, err := dir.Events(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(directory.MapOf(f.Client()).Partitions[0].Epoch > 1, len(events) > 0)
	stop()
	<-done
	// Output: true true
}

// A master that serves is replaced for maintenance, and nothing is lost.
func ExampleSwitch() {
	ctx := context.Background()
	servers, err := devfleet.Start(ctx, devfleet.Config{Partitions: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Stop()
	option := rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}}
	dir, err := directory.Dial(option)
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	members := failover.NewRedis(option)
	defer members.Close()

	quiet := slog.New(slog.DiscardHandler)
	err = failover.Switch(ctx, dir, members, 0, "", quiet, nil)
	fmt.Println(err)
	m, err := dir.Confirm(ctx, 0)
	fmt.Println(m.Partitions[0].Master.Addr == servers.Servers()[1].Addr, err)
	// Output:
	// <nil>
	// true <nil>
}
