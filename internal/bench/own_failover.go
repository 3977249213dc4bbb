package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

func failoverFigures() []Figure {
	return []Figure{
		{What: "failover, SIGKILL of a master to the first accepted write", Unit: "ms", Sides: []Side{
			{Name: "agent that looks every 250 ms", Measure: failoverPause},
			{Name: "of that Grace", Goal: ValueAtMost(4000), Measure: func(context.Context, *B) float64 {
				return float64(new(directory.Map).Grace().Milliseconds())
			}},
		}},
		{What: "longest time without an accepted write, members switched on purpose", Unit: "ms", Sides: []Side{
			{Name: "fleet failover", Goal: ValueAtMost(1000), Measure: plannedPause(switchMaster)},
			{Name: "fleet restart, all members", Goal: ValueAtMost(1000), Measure: plannedPause(restartAll)},
		}},
		{What: "p99 of writes while snapshots are taken", Unit: "ms", Sides: []Side{
			{Name: "one at a time", Measure: percentileOf(99, time.Millisecond, whileSaving(oneAtATime))},
			{Name: "all at once", Goal: AtMost(1), Measure: percentileOf(99, time.Millisecond, whileSaving(allAtOnce))},
			{Name: "none", Measure: percentileOf(99, time.Millisecond, whileSaving(noSnapshots))},
		}},
	}
}

// failoverPause kills the master of a tag that is written all the time, each write
// confirmed by a replica, and returns for how long no write was accepted. It is an
// error if an accepted one is lost.
func failoverPause(ctx context.Context, b *B) float64 {
	servers, f, add, end := b.watchedFleet(ctx, 250*time.Millisecond)
	defer end()
	c := f.Client()
	master := directory.MapOf(f.Client()).Partitions[must.Get(f.Locate(ctx, "tag")).Partition].Master.Addr
	for _, s := range servers.Servers() {
		if s.Addr == master {
			must.Do(s.Proc.Kill())
		}
	}
	killed := time.Now()
	for i := 1; ; i++ {
		err := add(i)
		if err == nil {
			break
		}
		if time.Since(killed) > 30*time.Second {
			must.Do(fmt.Errorf("no write was accepted for 30 seconds: %w", err))
		}
		retry.Sleep(ctx, 5*time.Millisecond)
		must.Do(context.Cause(ctx))
	}
	pause := time.Since(killed)
	if !must.Get(c.Do(ctx, c.B().Sismember().Key("{tag}").Member("0").Build()).AsBool()) {
		must.Do(errors.New("a write that a replica confirmed is lost"))
	}
	return float64(pause.Milliseconds())
}

// watchedFleet starts a fleet with an agent, until end is called. Its client waits for a replica of each write; add
// writes to one tag, whose first write is done.
func (b *B) watchedFleet(ctx context.Context, interval time.Duration) (servers *devfleet.Fleet, f *fleet.Fleet, add func(i int) error, end func()) {
	servers = b.startFleet(ctx, devfleet.Config{Nodes: 3, Partitions: 2, Replicas: 2})
	f = b.dialFleet(ctx, servers, 1)
	end = b.startAgent(ctx, servers, interval)
	c := f.Client()
	add = func(i int) error {
		return c.Do(ctx, c.B().Sadd().Key("{tag}").Member(fmt.Sprint(i)).Build()).Error()
	}
	must.Do(retry.Policy{}.Do(ctx, func(int) error { return add(0) }))
	retry.Sleep(ctx, time.Second) // until the agent leads and has examined the members
	return servers, f, add, end
}

// plannedPause writes all the time while masters are replaced on purpose, and returns the longest time without an
// accepted write. It is an error if an accepted one is lost.
func plannedPause(replace func(ctx context.Context, servers *devfleet.Fleet, dir *directory.Directory) error) Measure {
	return func(ctx context.Context, b *B) float64 {
		servers, f, add, end := b.watchedFleet(ctx, 500*time.Millisecond)
		defer end()
		dir := b.dialDirectory(servers)
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
		c := f.Client()
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

const (
	savedServers = 4
	savedKeys    = 100_000 // on each server, of a kilobyte; fewer if a side runs for less than a second
	savedWrites  = time.Millisecond
)

// whileSaving returns how late writes are to servers of one node, while save takes
// snapshots of all of them, and at least for the time of a side.
func whileSaving(save func(context.Context, *B, *devfleet.Fleet, []rueidis.Client)) func(context.Context, *B) []time.Duration {
	return func(ctx context.Context, b *B) []time.Duration {
		servers, keys := b.startFleet(ctx, oneNode(savedServers, directory.Settings{})), b.Scaled(savedKeys)
		var members []rueidis.Client
		for _, server := range servers.Servers() {
			c := b.dialServer(server.Addr)
			members = append(members, c)
			const fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'key:' .. i, string.rep('x', 1000)) end return 1"
			must.Do(c.Do(ctx, c.B().Eval().Script(fill).Numkeys(0).Arg(fmt.Sprint(keys)).Build()).Error())
		}
		writing, stop := context.WithCancel(ctx)
		late, errs := make([][]time.Duration, len(members)), make([]error, len(members))
		var writers sync.WaitGroup
		for i, c := range members {
			writers.Go(func() { late[i], errs[i] = writeEvery(writing, savedWrites, c, keys) })
		}
		func() {
			defer writers.Wait()
			defer stop()
			end := time.Now().Add(b.Time)
			for first := true; first || time.Now().Before(end); first = false {
				save(ctx, b, servers, members)
			}
		}()
		must.Do(errors.Join(errs...))
		all := slices.Concat(late...)
		if len(all) == 0 {
			must.Do(errors.New("nothing was written"))
		}
		return all
	}
}

// writeEvery writes at fixed times, whether or not earlier writes have been answered, and
// returns how long after its time each one was answered.
func writeEvery(ctx context.Context, every time.Duration, c rueidis.Client, keys int) (late []time.Duration, err error) {
	var mu sync.Mutex
	var writes sync.WaitGroup
	tick := time.NewTicker(every)
	defer tick.Stop()
	for due := time.Now(); ctx.Err() == nil; <-tick.C {
		for ; !due.After(time.Now()); due = due.Add(every) {
			planned := due
			writes.Go(func() {
				key := fmt.Sprintf("key:%d", 1+rand.IntN(keys))
				// A write that has begun is measured, also when the others have ended.
				failed := c.Do(context.WithoutCancel(ctx), c.B().Setrange().Key(key).Offset(0).Value(fieldValue).Build()).Error()
				took := time.Since(planned)
				mu.Lock()
				defer mu.Unlock()
				late, err = append(late, took), errors.Join(err, failed)
			})
		}
	}
	writes.Wait()
	return late, err
}

// oneAtATime saves the members one after the other, as a keeper does.
func oneAtATime(ctx context.Context, b *B, servers *devfleet.Fleet, _ []rueidis.Client) {
	for _, err := range snapshot.New(b.dialDirectory(servers), snapshot.Config{Logger: slog.New(slog.DiscardHandler)}).Now(ctx) {
		must.Do(err)
	}
}

// allAtOnce saves all members at the same time, as save points do that are due together.
func allAtOnce(ctx context.Context, _ *B, _ *devfleet.Fleet, members []rueidis.Client) {
	for _, c := range members {
		must.Do(c.Do(ctx, c.B().Bgsave().Build()).Error())
	}
	for _, c := range members {
		for Info(ctx, c, "persistence", "rdb_bgsave_in_progress") > 0 {
			retry.Sleep(ctx, 10*time.Millisecond)
		}
	}
}

// noSnapshots lets the writers write.
func noSnapshots(ctx context.Context, _ *B, _ *devfleet.Fleet, _ []rueidis.Client) {
	retry.Sleep(ctx, 10*time.Millisecond)
	must.Do(context.Cause(ctx))
}
