package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// visitsAtOnce is how many structures one slice visits at the same time.
	visitsAtOnce = 50

	// visitTimeout is how long a slice may take.
	visitTimeout = time.Second

	// visitCount is how many entries of a shard one step of a visitor examines.
	visitCount = 250

	// maxAvoided is how many structures that failed are remembered.
	maxAvoided = 10_000
)

// away is the backoff after failures.
var away = retry.Policy{Base: time.Second, Max: time.Minute}

// Away is the backoff of something that failed: from a second up to a minute, after timeouts up to
// 4 seconds. The zero value has not failed.
type Away struct {
	Err error // the last failure

	failures int
	until    time.Time
}

// Failed returns a after another failure.
func (a Away) Failed(err error) Away {
	a.failures++
	if errors.Is(err, context.DeadlineExceeded) {
		a.failures = min(a.failures, 3) // the machine may be loaded: a slice has little time
	}
	return Away{Err: err, failures: a.failures, until: time.Now().Add(away.Pause(a.failures))}
}

// Over reports whether it may be tried again.
func (a Away) Over(now time.Time) bool { return !now.Before(a.until) }

// Visitor goes round the registered structures of a kind for upkeep, a slice at a time. It
// starts at a random place and continues where it stopped. It skips a structure whose visit
// failed, for a second at first and for up to a minute later, without delaying others. It is
// safe for concurrent use; concurrent slices may visit the same structures.
type Visitor struct {
	client rueidis.Client
	kind   Kind
	visit  func(ctx context.Context, name string) (bool, error)

	mu      sync.Mutex
	shards  [parts]walk
	todo    []entered       // read and not visited yet
	avoided map[string]Away // the structures that failed, by field
}

// walk is how far a visitor is in a shard.
type walk struct {
	begun  bool
	ended  bool // in this round
	cursor uint64
	skip   int // steps to skip before the first visit
	Away
}

// entered is an entry that was read.
type entered struct {
	shard int
	field string
	value string
}

// NewVisitor returns a visitor of the structures of a kind, or of all if it is "". Visit
// does the upkeep of one structure and reports whether there was any; an error counts as
// nothing done.
func NewVisitor(client rueidis.Client, kind Kind, visit func(ctx context.Context, name string) (bool, error)) *Visitor {
	return &Visitor{client: client, kind: kind, visit: visit, avoided: map[string]Away{}}
}

// Slice visits up to 50 structures, all at the same time. It is a [millrace.Job]'s. It
// fails if no shard of the registry can be read.
func (v *Visitor) Slice(ctx context.Context) (millrace.Progress, error) {
	return v.slice(ctx, func(ctx context.Context, e entered) (bool, error) {
		return v.visit(ctx, strings.TrimPrefix(e.field, field(v.kind, "")))
	})
}

func (v *Visitor) slice(caller context.Context, visit func(context.Context, entered) (bool, error)) (millrace.Progress, error) {
	ctx, cancel := script.Within(caller, visitTimeout)
	defer cancel()
	some, more, err := v.next(ctx)
	if len(some) == 0 {
		return millrace.Idle, err
	}
	done := make([]bool, len(some))
	errs := make([]error, len(some))
	var visiting sync.WaitGroup
	for i, e := range some {
		visiting.Go(func() {
			errs[i] = loop.Protect(func() (err error) {
				done[i], err = visit(ctx, e)
				return err
			})
		})
	}
	visiting.Wait()
	progress := millrace.Idle
	for i, e := range some {
		if crash, ok := errors.AsType[*loop.PanicError](errs[i]); ok {
			panic(crash) // in the goroutine of the caller, which expects it there
		}
		if !errors.Is(caller.Err(), context.Canceled) { // which says nothing about the structure
			v.note(e, errs[i])
		}
		if done[i] && errs[i] == nil {
			progress = millrace.Worked
		}
	}
	if progress == millrace.Worked && more {
		progress = millrace.More
	}
	return progress, nil
}

// next returns the structures to visit next, and whether there are more in this round. It reads
// for half of the remaining time, which leaves the other half for the visits.
func (v *Visitor) next(ctx context.Context) (some []entered, more bool, err error) {
	until, _ := ctx.Deadline()
	ctx, cancel := script.Within(ctx, time.Until(until)/2)
	defer cancel()
	for again := true; again && ctx.Err() == nil; {
		if some, more = v.pick(false); len(some) > 0 {
			return some, more, nil
		}
		again, err = v.read(ctx)
	}
	some, more = v.pick(true)
	return some, more, err
}

// pick takes the next structures to visit from those read, except for the avoided ones. It
// takes none before the random start, unless now is set.
func (v *Visitor) pick(now bool) (some []entered, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !now && slices.ContainsFunc(v.shards[:], func(w walk) bool { return w.skip > 0 }) {
		return nil, false
	}
	at := time.Now()
	for len(v.todo) > 0 && len(some) < visitsAtOnce {
		e := v.todo[len(v.todo)-1]
		v.todo = v.todo[:len(v.todo)-1]
		if v.avoided[e.field].Over(at) {
			some = append(some, e)
		}
	}
	return some, len(v.todo) > 0 || slices.ContainsFunc(v.shards[:], func(w walk) bool { return !w.ended })
}

// note records the outcome of a visit, for the backoff of its structure.
func (v *Visitor) note(e entered, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		delete(v.avoided, e.field)
		return
	}
	if len(v.avoided) >= maxAvoided {
		clear(v.avoided)
	}
	v.avoided[e.field] = v.avoided[e.field].Failed(err)
}

// read takes the next step in all shards at the same time, and reports whether another
// step may find more in this round. When all shards have ended, another round begins. It
// fails if no shard can be read.
func (v *Visitor) read(ctx context.Context) (again bool, err error) {
	v.mu.Lock()
	walks, now := v.shards, time.Now()
	var answering, turn []int
	for shard, w := range walks {
		if !w.Over(now) {
			err = w.Err
			continue
		}
		answering = append(answering, shard)
		if !w.ended {
			turn = append(turn, shard)
		}
	}
	if len(turn) == 0 {
		turn = answering
		for shard := range v.shards {
			v.shards[shard].ended, walks[shard].ended = false, false
		}
	}
	v.mu.Unlock()
	if len(turn) == 0 {
		return false, err
	}

	pages := make([][]string, parts)
	var reading sync.WaitGroup
	for _, shard := range turn {
		reading.Go(func() { pages[shard] = walks[shard].step(ctx, v, shard) })
	}
	reading.Wait()

	v.mu.Lock()
	defer v.mu.Unlock()
	answered := false
	for _, shard := range turn {
		w := walks[shard]
		v.shards[shard] = w
		if w.Err != nil {
			err = w.Err
			continue
		}
		answered = true
		again = again || !w.ended
		for pair := range slices.Chunk(pages[shard], 2) {
			v.todo = append(v.todo, entered{shard, pair[0], pair[1]})
		}
	}
	// Processes that began at the same time do not visit in the same order.
	rand.Shuffle(len(v.todo), func(i, j int) { v.todo[i], v.todo[j] = v.todo[j], v.todo[i] })
	if answered {
		err = nil
	}
	return again, err
}

// step reads the next entries of a shard, each followed by its value. At first it skips a
// random number of steps of a large shard, so that short-lived processes do not all visit
// its beginning.
func (w *walk) step(ctx context.Context, v *Visitor, shard int) []string {
	Of(v.client).structures.settle(ctx, shard)
	match := "*"
	if v.kind != "" {
		match = field(v.kind, "*")
	}
	c, size := v.client, int64(0)
	page, err := script.Prompt(ctx, func(ctx context.Context) (page rueidis.ScanEntry, err error) { // the client may send these twice
		if !w.begun {
			if size, err = c.Do(ctx, c.B().Hlen().Key(key(shard)).Build().Pin()).AsInt64(); err != nil {
				return page, err
			}
		}
		return c.Do(ctx, c.B().Hscan().Key(key(shard)).Cursor(w.cursor).Match(match).Count(visitCount).Build().Pin()).AsScanEntry()
	})
	if err != nil {
		w.Away = w.Failed(err)
		return nil
	}
	skip := w.skip
	if !w.begun {
		skip = rand.IntN(int(size)/visitCount + 1)
	}
	*w = walk{begun: true, ended: page.Cursor == 0, cursor: page.Cursor}
	if skip > 0 && !w.ended {
		w.skip = skip - 1
		return nil
	}
	return page.Elements
}
