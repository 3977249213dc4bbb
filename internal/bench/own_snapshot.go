package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
)

func snapshotFigures() []Figure {
	return []Figure{{
		What: "p99 of writes while snapshots are taken", Unit: "ms", Sides: []Side{
			{Name: "one at a time", Measure: whileSaving(oneAtATime)},
			{Name: "all at once", Goal: AtMost(1), Measure: whileSaving(allAtOnce)},
			{Name: "none", Measure: whileSaving(noSnapshots)},
		},
	}}
}

const (
	savedServers = 4
	savedKeys    = 100_000 // on each server, of a kilobyte; fewer if a side runs for less than a second
	savedWrites  = time.Millisecond
)

// whileSaving measures how late writes are to servers of one node, while save takes
// snapshots of all of them, and at least for the time of a side.
func whileSaving(save func(context.Context, *devfleet.Fleet, []rueidis.Client) error) Measure {
	return func(ctx context.Context, at Place) (figure float64, err error) {
		servers, err := devfleet.Start(ctx, devfleet.Config{Nodes: 1, Partitions: savedServers, Replicas: devfleet.NoReplicas})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, servers.Stop()) }()
		keys := int(min(at.Time, time.Second) * savedKeys / time.Second)
		var members []rueidis.Client
		for _, server := range servers.Servers() {
			c, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
			})
			if err != nil {
				return 0, err
			}
			defer c.Close()
			members = append(members, c)
			const fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'key:' .. i, string.rep('x', 1000)) end return 1"
			if err := c.Do(ctx, c.B().Eval().Script(fill).Numkeys(0).Arg(fmt.Sprint(keys)).Build()).Error(); err != nil {
				return 0, err
			}
		}

		writing, stop := context.WithCancel(ctx)
		defer stop()
		late := make([][]time.Duration, len(members))
		errs := make([]error, len(members))
		var writers sync.WaitGroup
		for i, c := range members {
			writers.Go(func() { late[i], errs[i] = writeEvery(writing, savedWrites, c, keys) })
		}
		end := time.Now().Add(at.Time)
		for first := true; err == nil && (first || time.Now().Before(end)); first = false {
			err = save(ctx, servers, members)
		}
		stop()
		writers.Wait()
		if err := errors.Join(errors.Join(errs...), err); err != nil {
			return 0, err
		}
		all := slices.Sorted(slices.Values(slices.Concat(late...)))
		if len(all) == 0 {
			return 0, errors.New("nothing was written")
		}
		return float64(all[len(all)*99/100].Microseconds()) / 1000, nil
	}
}

// writeEvery writes at fixed times, whether or not what was written before is
// answered, and returns how long after its time each was.
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
				// One that has begun is measured, also when the others have ended.
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

// oneAtATime is what a keeper does.
func oneAtATime(ctx context.Context, servers *devfleet.Fleet, _ []rueidis.Client) error {
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, err := range snapshot.New(dir, snapshot.Config{Logger: slog.New(slog.DiscardHandler)}).Now(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// allAtOnce is what save points do that come round together.
func allAtOnce(ctx context.Context, _ *devfleet.Fleet, members []rueidis.Client) error {
	for _, c := range members {
		if err := c.Do(ctx, c.B().Bgsave().Build()).Error(); err != nil {
			return err
		}
	}
	for _, c := range members {
		for saving := true; saving; {
			info, err := c.Do(ctx, c.B().Info().Section("persistence").Build()).ToString()
			if err != nil {
				return err
			}
			if saving = strings.Contains(info, "rdb_bgsave_in_progress:1"); saving {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	return nil
}

// noSnapshots lets the writers write.
func noSnapshots(context.Context, *devfleet.Fleet, []rueidis.Client) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}
