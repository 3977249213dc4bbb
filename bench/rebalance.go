package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/bench"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/ring"
)

func rebalanceFigures() []bench.Figure {
	small, large := cargo{tags: 500, keys: 3, size: 300}, cargo{tags: 60, keys: 10, size: 100_000}
	batch := cargo{tags: 100, keys: 3, size: 300, batches: 1}
	return []bench.Figure{
		{What: "rebalance, 500 tags of 3 small keys, 5 batches", Unit: "tags/s", Sides: []bench.Side{
			{Name: "moved while in use", Measure: onTwo(small, moveTags)},
			{Name: "bare DUMP and RESTORE", Measure: onTwo(small, pipeTags)},
		}},
		{What: "rebalance, 60 tags of a megabyte, 5 batches", Unit: "MB/s", Sides: []bench.Side{
			{Name: "moved while in use", Measure: onTwo(large, moveBytes)},
			{Name: "bare DUMP and RESTORE", Measure: onTwo(large, pipeBytes)},
		}},
		{What: "rebalance, pause that writers feel, median of 100 tags", Unit: "ms", Sides: []bench.Side{
			{Name: "one batch, beside 100,000 keys", Measure: onTwo(batch, pauseOf(50))},
			{Name: "of that ReplyLimit and a tenth", Measure: func(context.Context, bench.Place) (float64, error) {
				return milliseconds(directory.DefaultReplyLimit * 11 / 10), nil
			}},
			{Name: "of that a pass over the keys", Measure: onTwo(batch, passTime)},
			{Name: "of that a bare copy", Measure: onTwo(batch, pipeTime)},
		}},
		{What: "rebalance, pause that writers feel, p99 of 100 tags", Unit: "ms", Sides: []bench.Side{
			{Name: "one batch, beside 100,000 keys", Measure: onTwo(batch, pauseOf(99))},
			{Name: "the median in another run", Measure: onTwo(batch, pauseOf(50))},
		}},
	}
}

// cargo is what is moved from one partition to another.
type cargo struct {
	tags    int
	keys    int // of a tag
	size    int // of a value, in bytes, which cannot be compressed
	batches int // in which it is moved. Defaults to 5.
}

const (
	besideKeys  = 100_000 // keys of the partition that stay
	writeToMove = 5 * time.Millisecond
)

// moveSettings are the fleet's own, but for a short wait until places are forgotten,
// which nobody feels.
func moveSettings() directory.Settings {
	limit := directory.DefaultReplyLimit
	return directory.Settings{ViewLife: limit, ReplyLimit: limit, PlacementLife: limit}
}

// loaded is a fleet of two partitions, the first of which has a cargo.
type loaded struct {
	bench.Place

	f        *fleet.Fleet
	cargo    cargo
	tags     []string
	from, to rueidis.Client // the servers themselves
}

func (l *loaded) key(tag string, n int) string { return fmt.Sprintf("{%s}:%d", tag, n) }

// onTwo measures something on a loaded fleet of its own.
func onTwo(load cargo, figure func(context.Context, *loaded) (float64, error)) bench.Measure {
	return func(ctx context.Context, at bench.Place) (float64, error) {
		load := load
		if load.batches == 0 {
			load.batches = 5
		}
		load.tags = max(2*load.batches, at.Scaled(load.tags))
		cfg := devfleet.Config{Nodes: 1, Partitions: 2, Replicas: devfleet.NoReplicas, Settings: moveSettings()}
		return withServers(ctx, cfg, func(_ *devfleet.Fleet, f *fleet.Fleet) (float64, error) {
			l := &loaded{Place: at, f: f, cargo: load}
			for id, into := range []*rueidis.Client{&l.from, &l.to} {
				c, err := rueidis.NewClient(rueidis.ClientOption{
					InitAddress:       []string{f.Map().Partitions[id].Master.Addr},
					ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
				})
				if err != nil {
					return 0, err
				}
				defer c.Close()
				*into = c
			}
			if err := l.fill(ctx, at.Scaled(besideKeys)); err != nil {
				return 0, err
			}
			return figure(ctx, l)
		})
	}
}

// fill makes the cargo, and keys beside it.
func (l *loaded) fill(ctx context.Context, beside int) error {
	const filler = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'key:' .. i, 'x') end return 1"
	if err := l.from.Do(ctx, l.from.B().Eval().Script(filler).Numkeys(0).Arg(fmt.Sprint(beside)).Build()).Error(); err != nil {
		return err
	}
	points, err := l.f.Map().Ring()
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{})
	value := make([]byte, l.cargo.size)
	for i := 0; len(l.tags) < l.cargo.tags; i++ {
		tag := fmt.Sprint("user:", i)
		if points.Owner(ring.Position(tag)) != 0 {
			continue
		}
		l.tags = append(l.tags, tag)
		for n := range l.cargo.keys {
			_, _ = noise.Read(value)
			if err := l.write(ctx, l.key(tag, n), string(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// write repeats a write of which nobody knows whether it was done.
func (l *loaded) write(ctx context.Context, key, value string) error {
	for {
		err := l.f.Client().Do(ctx, l.f.Client().B().Set().Key(key).Value(value).Build()).Error()
		if !errors.Is(err, millrace.ErrUncertain) {
			return err
		}
	}
}

// move moves the cargo, and returns how much came behind the first batch, and how
// long that took: before the first there is a wait that does not grow with what is
// moved.
func (l *loaded) move(ctx context.Context) (tags int, bytes int64, took time.Duration, err error) {
	var first, last rebalance.Progress
	var began, ended time.Time
	mover, err := rebalance.New(l.f, rebalance.Config{
		Batch:  len(l.tags) / l.cargo.batches,
		Logger: slog.New(slog.DiscardHandler),
		Progress: func(p rebalance.Progress) {
			if last, ended = p, time.Now(); began.IsZero() {
				first, began = last, ended
			}
		},
	})
	if err != nil {
		return 0, 0, 0, err
	}
	_, err = mover.Move(ctx, 1, l.tags...)
	return last.Tags - first.Tags, last.Bytes - first.Bytes, ended.Sub(began), err
}

func moveTags(ctx context.Context, l *loaded) (float64, error) {
	tags, _, took, err := l.move(ctx)
	return float64(tags) / took.Seconds(), err
}

func moveBytes(ctx context.Context, l *loaded) (float64, error) {
	_, bytes, took, err := l.move(ctx)
	return float64(bytes) / 1e6 / took.Seconds(), err
}

// pipe copies the cargo and does nothing else: no tag is kept from being written for.
func (l *loaded) pipe(ctx context.Context) (int64, time.Duration, error) {
	var bytes atomic.Int64
	began := time.Now()
	err := bench.Deal(ctx, len(l.tags), func(ctx context.Context, i int) error {
		n, err := l.pipeOne(ctx, l.tags[i])
		bytes.Add(n)
		return err
	})
	return bytes.Load(), time.Since(began), err
}

func (l *loaded) pipeOne(ctx context.Context, tag string) (bytes int64, err error) {
	var dumps, restores []rueidis.Completed
	for n := range l.cargo.keys {
		dumps = append(dumps, l.from.B().Dump().Key(l.key(tag, n)).Build())
	}
	for n, reply := range l.from.DoMulti(ctx, dumps...) {
		payload, err := reply.ToString()
		if err != nil {
			return 0, err
		}
		bytes += int64(len(payload))
		restores = append(restores, l.to.B().Restore().Key(l.key(tag, n)).Ttl(0).SerializedValue(payload).Replace().Build())
	}
	for _, reply := range l.to.DoMulti(ctx, restores...) {
		if err := reply.Error(); err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

func pipeTags(ctx context.Context, l *loaded) (float64, error) {
	_, took, err := l.pipe(ctx)
	return float64(len(l.tags)) / took.Seconds(), err
}

func pipeBytes(ctx context.Context, l *loaded) (float64, error) {
	bytes, took, err := l.pipe(ctx)
	return float64(bytes) / 1e6 / took.Seconds(), err
}

func pipeTime(ctx context.Context, l *loaded) (float64, error) {
	_, took, err := l.pipe(ctx)
	return milliseconds(took), err
}

// passTime is how long it takes to go through the keys of the first partition.
func passTime(ctx context.Context, l *loaded) (float64, error) {
	began := time.Now()
	for cursor := uint64(0); ; {
		page, err := l.from.Do(ctx, l.from.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return 0, err
		}
		if cursor = page.Cursor; cursor == 0 {
			return milliseconds(time.Since(began)), nil
		}
	}
}

// pauseOf moves the cargo while each tag has a writer, and returns for how long a
// writer had no success, in one case of a hundred.
func pauseOf(percent int) func(context.Context, *loaded) (float64, error) {
	return func(ctx context.Context, l *loaded) (float64, error) {
		writing, stop := context.WithCancel(ctx)
		defer stop()
		pauses := make([]time.Duration, len(l.tags))
		var writers sync.WaitGroup
		for i, tag := range l.tags {
			writers.Go(func() {
				for before := time.Now(); writing.Err() == nil; time.Sleep(writeToMove) {
					if l.f.Client().Do(writing, l.f.Client().B().Set().Key(l.key(tag, 0)).Value("x").Build()).Error() == nil {
						now := time.Now()
						pauses[i] = max(pauses[i], now.Sub(before))
						before = now
					}
				}
			})
		}
		_, _, _, err := l.move(ctx)
		stop()
		writers.Wait()
		slices.Sort(pauses)
		return milliseconds(pauses[len(pauses)*percent/100]), err
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
