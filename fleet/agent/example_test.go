package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
)

// startFleet starts three servers of one partition on this machine, and their directory.
func startFleet() (servers *devfleet.Fleet, stop func()) {
	servers, err := devfleet.Start(context.Background(), devfleet.Config{Partitions: 1, Replicas: 2})
	if err != nil {
		log.Fatal(err)
	}
	return servers, func() {
		if err := servers.Stop(); err != nil {
			log.Fatal(err)
		}
	}
}

// A program that uses a fleet also runs an agent for it. A master is killed, and writes go
// on by themselves.
func Example() {
	servers, stop := startFleet()
	defer stop()
	ctx := context.Background()

	f, err := fleet.Dial(ctx, servers.URL(), fleet.Config{}) // etcd.Dial for a directory in etcd
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	running, end := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		err := agent.Run(running, agent.Config{Fleet: f, Interval: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		fmt.Println("the agent ended:", err)
	})

	c := f.Client()
	write := func() {
		for c.Do(ctx, c.B().Incr().Key("{user:7}:visits").Build()).Error() != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	master := func() string {
		status, err := f.Status(ctx)
		if err != nil {
			log.Fatal(err)
		}
		return status.Partitions[0].Master.Addr
	}
	write()
	killed := servers.Servers()[0]
	if err := killed.Proc.Kill(); err != nil {
		log.Fatal(err)
	}
	for master() == killed.Addr {
		time.Sleep(100 * time.Millisecond)
	}
	write()
	fmt.Println("writes go on")

	end(errors.New("the program stops"))
	work.Wait()
	// Output:
	// writes go on
	// the agent ended: the program stops
}
