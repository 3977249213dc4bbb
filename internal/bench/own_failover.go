package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/retry"
)

func failoverFigures() []Figure {
	return []Figure{
		{What: "failover, SIGKILL of a master to the first accepted write", Unit: "ms", Sides: []Side{
			{Name: "agent that looks every 250 ms", Measure: failoverPause},
			{Name: "of that Grace", Goal: ValueAtMost(4000), Measure: func(context.Context, Place) (float64, error) {
				return float64(directory.Settings{}.Grace().Milliseconds()), nil
			}},
		}},
	}
}

// failoverPause kills the master of a tag that is written all the time, each write
// confirmed by a replica, and returns for how long none was accepted. It is an
// error if one that was is lost.
func failoverPause(ctx context.Context, _ Place) (float64, error) {
	return withServers(ctx, devfleet.Config{Nodes: 3, Partitions: 2, Replicas: 2}, func(servers *devfleet.Fleet, f *fleet.Fleet) (float64, error) {
		dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
		if err != nil {
			return 0, err
		}
		defer dir.Close()
		members := failover.NewRedis(rueidis.ClientOption{})
		defer members.Close()
		running, stop := context.WithCancel(ctx)
		var agent sync.WaitGroup
		defer agent.Wait()
		defer stop()
		agent.Go(func() {
			_ = failover.New(dir, members, failover.Config{Interval: 250 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}).Run(running)
		})
		c := f.Client()
		add := func(i int) error {
			return c.Do(ctx, c.B().Sadd().Key("{tag}").Member(fmt.Sprint(i)).Build()).Error()
		}
		if err := (retry.Policy{}).Do(ctx, func(int) error { return add(0) }); err != nil {
			return 0, err
		}
		// The agent has looked at the members, and leads, when it has said who needs
		// whom.
		if !retry.Sleep(ctx, time.Second) {
			return 0, context.Cause(ctx)
		}
		where, err := f.Locate(ctx, "tag")
		if err != nil {
			return 0, err
		}
		for _, s := range servers.Servers() {
			if s.Addr == directory.MapOf(f.Client()).Partitions[where.Partition].Master.Addr {
				if err := s.Proc.Kill(); err != nil {
					return 0, err
				}
			}
		}
		killed := time.Now()
		for i := 1; ; i++ {
			err := add(i)
			if err == nil {
				break
			}
			if time.Since(killed) > 30*time.Second {
				return 0, errors.Join(errors.New("no write was accepted for 30 seconds"), err)
			}
			if !retry.Sleep(ctx, 5*time.Millisecond) {
				return 0, context.Cause(ctx)
			}
		}
		pause := time.Since(killed)
		there, err := c.Do(ctx, c.B().Sismember().Key("{tag}").Member("0").Build()).AsBool()
		if err == nil && !there {
			err = errors.New("a write that a replica confirmed is lost")
		}
		return float64(pause.Milliseconds()), err
	})
}
