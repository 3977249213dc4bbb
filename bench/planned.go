package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

func plannedFigures() []bench.Figure {
	return []bench.Figure{
		{What: "longest time without an accepted write, members switched on purpose", Unit: "ms", Sides: []bench.Side{
			{Name: "fleet failover", Goal: bench.ValueAtMost(1000), Measure: plannedPause(switchMaster)},
			{Name: "fleet restart, all members", Goal: bench.ValueAtMost(1000), Measure: plannedPause(restartAll)},
		}},
	}
}

// plannedPause writes all the time to a fleet with an agent, each write confirmed by a replica, while masters are
// replaced on purpose, and returns the longest time without an accepted write. It is an error if an accepted one is lost.
func plannedPause(replace func(ctx context.Context, servers *devfleet.Fleet, dir *directory.Directory) error) bench.Measure {
	return func(ctx context.Context, b *bench.B) float64 {
		servers := devfleet.OnStage(ctx, &b.Stage, devfleet.Config{Nodes: 3, Partitions: 2, Replicas: 2})
		dir := must.Get(directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}}))
		b.Close(dir)
		defer beside.Agent(dir, rueidis.ClientOption{}, agent.Config{Logger: slog.New(slog.DiscardHandler)})(ctx)()
		c := servers.Dial(ctx, &b.Stage, 1).Client()
		add := func(i int) error {
			return c.Do(ctx, c.B().Sadd().Key("{tag}").Member(fmt.Sprint(i)).Build()).Error()
		}
		must.Do(retry.Policy{}.Do(ctx, func(int) error { return add(0) }))
		retry.Sleep(ctx, time.Second) // until the agent leads and has examined the members
		replaced := make(chan error, 1)
		go func() { replaced <- replace(ctx, servers, dir) }()
		var longest time.Duration
		var accepted []string
		last := time.Now()
		for i := 1; ; i++ {
			if err := add(i); err == nil {
				longest, last = max(longest, time.Since(last)), time.Now()
				accepted = append(accepted, fmt.Sprint(i))
			}
			must.Do(context.Cause(ctx))
			retry.Sleep(ctx, time.Millisecond)
			select {
			case err := <-replaced:
				must.Do(err)
			default:
				continue
			}
			break
		}
		for _, is := range must.Get(c.Do(ctx, c.B().Smismember().Key("{tag}").Member(accepted...).Build()).AsIntSlice()) {
			if is == 0 {
				must.Do(errors.New("a write that a replica confirmed is lost"))
			}
		}
		return float64(longest.Milliseconds())
	}
}

// switchMaster makes a replica the master of each partition.
func switchMaster(ctx context.Context, _ *devfleet.Fleet, dir *directory.Directory) (err error) {
	defer must.Recover(&err)
	members := failover.NewRedis(rueidis.ClientOption{})
	defer members.Close()
	for i := range must.Get(dir.Confirm(ctx, 0)).Partitions {
		must.Do(failover.Switch(ctx, dir, members, i, "", slog.New(slog.DiscardHandler), nil))
	}
	return nil
}

// restartAll restarts all members, which a supervisor starts again.
func restartAll(ctx context.Context, servers *devfleet.Fleet, dir *directory.Directory) (err error) {
	defer must.Recover(&err)
	supervising, stop := context.WithCancel(ctx)
	var supervisors sync.WaitGroup
	defer supervisors.Wait()
	defer stop()
	for _, s := range servers.Servers() {
		supervisors.Go(func() {
			for {
				select {
				case <-s.Proc.Done():
					_ = s.Proc.Restart(supervising) // the plan waits for it
				case <-supervising.Done():
					return
				}
			}
		})
	}
	m := must.Get(dir.Confirm(ctx, 0))
	plan := must.Get(membership.Make(m, membership.Restart{}))
	_, err = new(membership.Config).CarryOut(ctx, dir, m, membership.Restart{}, plan)
	return err
}
