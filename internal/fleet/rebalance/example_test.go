package rebalance_test

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
	"github.com/millrace/millrace/internal/fleet/rebalance"
)

// A partition is drained before its machine is given back: it takes no new tags, and
// those that it has are moved to the other one, while they are in use.
func Example() {
	ctx := context.Background()
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Partitions: 2, Replicas: devfleet.NoReplicas,
		Settings: directory.Settings{ViewTTL: 300 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, PlacementTTL: 300 * time.Millisecond},
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
	for user := range 20 {
		for c.Do(ctx, c.B().Set().Key(fmt.Sprintf("{user:%d}:name", user)).Value("Ada").Build()).Error() != nil {
			time.Sleep(10 * time.Millisecond) // until the servers have settled
		}
	}

	if err := rebalance.Close(ctx, dir, 0); err != nil {
		log.Fatal(err)
	}
	mover, err := rebalance.New(f, rebalance.Config{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	report, err := mover.Drain(ctx, 0, rebalance.DrainConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Tags == int(report.Keys), report.LongestPause > 300*time.Millisecond)

	status, err := f.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Partitions[0].Tags, status.Partitions[1].Tags)
	// Output:
	// true true
	// 0 20
}
