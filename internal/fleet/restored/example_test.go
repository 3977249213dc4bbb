package restored_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/restored"
)

// The only member of a partition is restarted with data that it saved a while ago. A consumer of
// the Ick "rebuild" is given the user, whose later name is lost, and writes it again.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Partitions: 1, Replicas: devfleet.NoReplicas, Settings: directory.Settings{RestoredIck: "rebuild"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Stop()
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	quiet := slog.New(slog.DiscardHandler)
	f, err := fleet.Open(ctx, dir, fleet.Config{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	c := f.Client()
	dirty, err := ick.New(c, "rebuild", ick.Config{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}

	// The same as millrace fleet agent does.
	mover, err := rebalance.New(f, rebalance.Config{Moves: dir, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	job := restored.New(f, mover, restored.Config{Logger: quiet, Mark: func(ctx context.Context, _ string, tags []string) error {
		_, err := dirty.AddNow(ctx, tags...)
		return err
	}})
	go job.Run(ctx)
	members := failover.NewRedis(rueidis.ClientOption{})
	defer members.Close()
	agent := failover.New(dir, members, failover.Config{Logger: quiet, Restored: restored.BeforeUse(rueidis.ClientOption{}, quiet)})
	go agent.Run(ctx)

	set := func(name string) {
		for c.Do(ctx, c.B().Set().Key("{user:7}:name").Value(name).Build()).Error() != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	set("Ada")
	for m := directory.MapOf(c); m.Partitions[0].Master.Run == ""; m = directory.MapOf(c) {
		time.Sleep(10 * time.Millisecond) // until the agent knows the master
	}
	server := f.Partitions()[0]
	if err := server.Do(ctx, server.B().Save().Build()).Error(); err != nil {
		log.Fatal(err)
	}
	set("Grace")
	if err := servers.Servers()[0].Proc.Restart(ctx); err != nil {
		log.Fatal(err)
	}

	consuming, done := context.WithCancel(ctx)
	_ = dirty.Consume(consuming, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
		if slices.ContainsFunc(batch, func(e ick.Entry) bool { return e.Member == "user:7" }) {
			name, err := c.Do(ctx, c.B().Get().Key("{user:7}:name").Build()).ToString()
			fmt.Println(name, err)
			set("Grace") // from the database
			done()
		}
		return nil
	})
	fmt.Println(c.Do(ctx, c.B().Get().Key("{user:7}:name").Build()).ToString())
	// Output:
	// Ada <nil>
	// Grace <nil>
}
