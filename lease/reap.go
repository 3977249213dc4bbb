package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// reapShards is in how many shards of the index one slice looks, and reapMost how
	// many leases of each it visits.
	reapShards = 16
	reapMost   = 10

	// reapClaim is how long nobody else visits a lease that is being visited, and so for
	// how long one that does not answer is left alone.
	reapClaim = 10 * time.Second

	// reapTimeout is how long a slice takes, if its context lets it.
	reapTimeout = time.Second
)

// ReapJob returns the job that removes abandoned leases: those whose deadline came more
// than a minute ago and that nobody took over. They are in nobody's way but take memory;
// what was released leaves by itself.
//
// It finds them in an index by when to look at them next, and so looks at few that are
// held. A slice visits up to 160 of them, all at the same time; four slices go round the
// index.
func (l *Locker) ReapJob() millrace.Job {
	r := &reaper{l: l, next: rand.IntN(registry.DueShards)}
	return millrace.Job{Name: "lease.reap", Slice: r.slice}
}

// reaper goes round the index.
type reaper struct {
	l *Locker

	mu     sync.Mutex
	next   int // the shard where the next slice begins
	shards [registry.DueShards]registry.Away
}

func (r *reaper) slice(caller context.Context) (millrace.Progress, error) {
	ctx, cancel := script.Within(caller, reapTimeout)
	defer cancel()
	turn, failed := r.turn()
	var mu sync.Mutex
	progress, answered := millrace.Idle, false
	var reaping sync.WaitGroup
	for _, shard := range turn {
		reaping.Go(func() {
			p, err := r.l.reapShard(ctx, shard)
			mu.Lock()
			defer mu.Unlock()
			progress, answered = max(progress, p), answered || err == nil
			if err != nil {
				failed = err
			}
			if !errors.Is(caller.Err(), context.Canceled) { // which says nothing about the shard
				r.note(shard, err)
			}
		})
	}
	reaping.Wait()
	if answered {
		failed = nil
	}
	return progress, failed
}

// turn returns in which shards to look next, without those that have failed of late. The
// error is one of theirs.
func (r *reaper) turn() (turn []int, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i := range reapShards {
		shard := (r.next + i) % registry.DueShards
		if r.shards[shard].Over(now) {
			turn = append(turn, shard)
		} else {
			failed = r.shards[shard].Err
		}
	}
	r.next = (r.next + reapShards) % registry.DueShards
	return turn, failed
}

// note remembers whether a shard answered.
func (r *reaper) note(shard int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.shards[shard] = registry.Away{}
	} else {
		r.shards[shard] = r.shards[shard].Failed(err)
	}
}

// reapShard visits leases of one shard of the index that are due. Those that do not
// answer are due again when their claim is over.
func (l *Locker) reapShard(ctx context.Context, shard int) (millrace.Progress, error) {
	key := registry.LeasesKey(shard)
	claimed, names, err := l.due(ctx, key)
	if err != nil || len(names) == 0 {
		return millrace.Idle, err
	}
	within, cancel := halfOf(ctx) // so that there is time to settle those that answer
	defer cancel()
	removed, again := make([]bool, len(names)), make([]int64, len(names))
	errs := make([]error, len(names))
	var visiting sync.WaitGroup
	for i, name := range names {
		visiting.Go(func() { removed[i], again[i], errs[i] = l.reap(within, name) })
	}
	visiting.Wait()
	progress := millrace.Idle
	args := []string{claimed}
	for i, name := range names {
		if errs[i] != nil {
			continue
		}
		args = append(args, name, strconv.FormatInt(again[i], 10))
		if removed[i] {
			progress = millrace.Worked
		}
	}
	if len(names) == reapMost {
		progress = millrace.Full // there are probably more
	}
	if len(args) > 1 {
		_, err = l.run.Run(ctx, "settle", key, args...)
	}
	return progress, err
}

// halfOf returns a context that has half of the time that there is.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, _ := ctx.Deadline()
	return script.Within(ctx, time.Until(until)/2)
}

// due takes names out of the index.
func (l *Locker) due(ctx context.Context, key string) (claimed string, names []string, err error) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	reply, err := l.run.Run(ctx, "due", key, strconv.Itoa(reapMost), millis(reapClaim))
	if err != nil {
		return "", nil, err
	}
	claimed = reply.Text()
	for reply.More() {
		names = append(names, reply.Text())
	}
	return claimed, names, reply.Err()
}

// reap removes a lease if it is abandoned, and tells in how many milliseconds to look at
// it again.
func (l *Locker) reap(ctx context.Context, name string) (removed bool, again int64, err error) {
	if CheckName(name) != nil {
		return false, -1, nil //nolint:nilerr // no lease has that name
	}
	reply, err := l.run.Run(ctx, "reap", baseKey(name))
	if err != nil {
		return false, 0, err
	}
	return reply.Bool(), reply.Int(), reply.Err()
}
