package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	reapShards  = 16               // shards of the index in one slice
	reapBatch   = 10               // leases of one shard in one slice
	reapClaim   = 10 * time.Second // for this long no other reaper visits a claimed lease
	reapTimeout = time.Second      // of a slice
)

// Jobs returns the job that removes abandoned leases: those whose deadline passed more than
// a minute ago and that no other holder took. They block no other holder, but take memory.
// Released leases expire by themselves.
//
// A slice visits up to 160 leases at the same time. It finds them in an index by due time,
// so that it meets few held ones; four slices cover the index.
func Jobs(client rueidis.Client) []millrace.Job {
	l := &Locker{run: script.Runner{Client: client, Scripts: library}}
	return []millrace.Job{l.reapJob()}
}

func (l *Locker) reapJob() millrace.Job {
	r := &reaper{l: l, next: rand.IntN(registry.DueShards)}
	return millrace.Job{Name: "lease.reap", Slice: r.slice}
}

// reaper visits the shards of the index in turn.
type reaper struct {
	l *Locker

	mu     sync.Mutex
	next   int // the first shard of the next slice
	shards [registry.DueShards]registry.Away
}

func (r *reaper) slice(caller context.Context) (millrace.Progress, error) {
	ctx, cancel := script.Within(caller, reapTimeout)
	defer cancel()
	turn, failed := r.turn()
	progress, answered := millrace.Idle, false
	var reaping sync.WaitGroup
	for _, shard := range turn {
		reaping.Go(func() {
			p, err := r.l.reapShard(ctx, shard)
			r.mu.Lock()
			defer r.mu.Unlock()
			progress, answered = max(progress, p), answered || err == nil
			switch {
			case err == nil:
				r.shards[shard] = registry.Away{}
			case errors.Is(caller.Err(), context.Canceled): // no fault of the shard
				failed = err
			default:
				failed, r.shards[shard] = err, r.shards[shard].Failed(err)
			}
		})
	}
	reaping.Wait()
	if answered {
		failed = nil
	}
	return progress, failed
}

// turn returns the shards to visit next, except those that failed recently. The error is
// one of theirs.
func (r *reaper) turn() (turn []int, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range reapShards {
		shard := (r.next + i) % registry.DueShards
		if r.shards[shard].Over(time.Now()) {
			turn = append(turn, shard)
		} else {
			failed = r.shards[shard].Err
		}
	}
	r.next = (r.next + reapShards) % registry.DueShards
	return turn, failed
}

// reapShard visits the due leases of one shard. Those that do not answer are due again
// after their claim.
func (l *Locker) reapShard(ctx context.Context, shard int) (millrace.Progress, error) {
	key := registry.LeasesKey(shard)
	claimed, due, err := l.due(ctx, key)
	if err != nil || len(due) == 0 {
		return millrace.Idle, err
	}
	visitCtx, cancel := halfOf(ctx) // leaves time to settle those that answer
	defer cancel()
	removed, again := make([]bool, len(due)), make([]int64, len(due))
	errs := make([]error, len(due))
	var visiting sync.WaitGroup
	for i, name := range due {
		visiting.Go(func() { removed[i], again[i], errs[i] = l.reap(visitCtx, name) })
	}
	visiting.Wait()
	progress := millrace.Idle
	args := []string{claimed}
	for i, name := range due {
		if errs[i] != nil {
			continue
		}
		args = append(args, name, strconv.FormatInt(again[i], 10))
		if removed[i] {
			progress = millrace.Worked
		}
	}
	if len(due) == reapBatch {
		progress = millrace.More // there are probably more
	}
	if len(args) > 1 {
		_, err = l.run.Run(ctx, "settle", key, args...)
	}
	return progress, err
}

func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, _ := ctx.Deadline()
	return script.Within(ctx, time.Until(until)/2)
}

func (l *Locker) due(ctx context.Context, key string) (claimed string, names []string, err error) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	reply, err := l.run.Run(ctx, "due", key, strconv.Itoa(reapBatch), millis(reapClaim))
	if err != nil {
		return "", nil, err
	}
	claimed = reply.Text()
	for reply.More() {
		names = append(names, reply.Text())
	}
	return claimed, names, reply.Err()
}

// reap removes an abandoned lease. It returns in how many milliseconds to visit the name
// again, or -1 for never.
func (l *Locker) reap(ctx context.Context, name string) (removed bool, again int64, err error) {
	if names.CheckLease(name) != nil {
		return false, -1, nil //nolint:nilerr // no lease has that name
	}
	reply, err := l.run.Run(ctx, "reap", baseKey(name))
	if err != nil {
		return false, 0, err
	}
	return reply.Bool(), reply.Int(), reply.Err()
}
