package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/script"
)

const (
	// visitsAtOnce is how many structures one slice visits, all at the same time.
	visitsAtOnce = 50

	// visitTimeout is how long a slice takes, if its context lets it.
	visitTimeout = time.Second

	// visitCount is how many entries of each shard one step of a visitor looks at.
	visitCount = 250

	// maxAvoided is how many structures that failed are remembered.
	maxAvoided = 10_000
)

// Visitor goes round the registered structures of a kind, a slice at a time, for upkeep.
// It starts at a random place and goes on where it stopped. What fails is passed over, at
// first for a second, at last for a minute at a time, and keeps none of the others
// waiting. It is safe for concurrent use; slices that run at the same time may visit the
// same structures.
type Visitor struct {
	client rueidis.Client
	kind   Kind
	visit  func(ctx context.Context, name string) (bool, error)

	mu      sync.Mutex
	shards  [parts]walk
	todo    []entered       // what was read and was not visited yet
	avoided map[string]Away // what failed, by its field
}

// walk is how far a visitor has come in a shard.
type walk struct {
	begun  bool
	ended  bool // in this round
	cursor uint64
	skip   int // steps that are passed over before the first visit
	Away
}

// entered is an entry that was read.
type entered struct {
	shard int
	field string
	value string
}

// NewVisitor returns a visitor of the structures of a kind, or of all if it is "". Visit does what is due in the structure of that name, and
// reports whether there was anything; an error counts as nothing done.
func NewVisitor(client rueidis.Client, kind Kind, visit func(ctx context.Context, name string) (bool, error)) *Visitor {
	return &Visitor{client: client, kind: kind, visit: visit, avoided: map[string]Away{}}
}

// Slice visits up to 50 structures, all at the same time. It is a [millrace.Job]'s. The
// error is that of a registry of which no part can be read.
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
			panic(crash) // in the goroutine of the slice, where its caller expects it
		}
		if !errors.Is(caller.Err(), context.Canceled) { // which says nothing about the structure
			v.note(e, errs[i])
		}
		if done[i] && errs[i] == nil {
			progress = millrace.Worked
		}
	}
	if progress == millrace.Worked && more {
		progress = millrace.Full
	}
	return progress, nil
}

// next returns what to visit next, and whether there is more in this round. It reads for
// half of the time that there is, so that the other half is left for the visits.
func (v *Visitor) next(ctx context.Context) (some []entered, more bool, err error) {
	until, _ := ctx.Deadline()
	ctx, cancel := script.Within(ctx, time.Until(until)/2)
	defer cancel()
	for again := true; again && ctx.Err() == nil; {
		if !v.beginning() {
			if some, more = v.pick(); len(some) > 0 {
				return some, more, nil
			}
		}
		again, err = v.read(ctx)
	}
	some, more = v.pick()
	return some, more, err
}

// beginning reports whether the visitor is still on its way to the place where it begins.
func (v *Visitor) beginning() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.shards {
		if v.shards[i].skip > 0 {
			return true
		}
	}
	return false
}

// pick takes what to visit next from what was read, but for what is left alone.
func (v *Visitor) pick() (some []entered, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for len(v.todo) > 0 && len(some) < visitsAtOnce {
		e := v.todo[len(v.todo)-1]
		v.todo = v.todo[:len(v.todo)-1]
		if v.avoided[e.field].Over(now) {
			some = append(some, e)
		}
	}
	for i := range v.shards {
		more = more || !v.shards[i].ended
	}
	return some, more || len(v.todo) > 0
}

// note remembers whether a visit failed.
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

// read takes the next step in each shard, in all at the same time, and reports whether
// another one might find more in this round. When all have come to their end, another
// round begins. The error says why nothing can be read.
func (v *Visitor) read(ctx context.Context) (again bool, err error) {
	v.mu.Lock()
	var turn []int
	now := time.Now()
	ended := true
	for shard := range v.shards {
		w := &v.shards[shard]
		if !w.Over(now) {
			err = w.Err
			continue
		}
		if !w.ended {
			turn = append(turn, shard)
			ended = false
		}
	}
	if ended { // of those that answer
		for shard := range v.shards {
			v.shards[shard].ended = false
			if v.shards[shard].Over(now) {
				turn = append(turn, shard)
			}
		}
	}
	walks := v.shards
	v.mu.Unlock()
	if len(turn) == 0 {
		return false, err
	}

	steps := make([]rueidis.ScanEntry, len(turn))
	errs := make([]error, len(turn))
	var reading sync.WaitGroup
	for i, shard := range turn {
		reading.Go(func() {
			w := &walks[shard]
			if !w.begun {
				w.skip, errs[i] = v.draw(ctx, shard)
			}
			if errs[i] == nil {
				steps[i], errs[i] = v.step(ctx, shard, w.cursor)
			}
		})
	}
	reading.Wait()

	v.mu.Lock()
	defer v.mu.Unlock()
	answered := false
	for i, shard := range turn {
		w := &v.shards[shard]
		if errs[i] != nil {
			err = errs[i]
			w.Away = w.Failed(err)
			continue
		}
		answered = true
		skip := walks[shard].skip
		*w = walk{begun: true, ended: steps[i].Cursor == 0, cursor: steps[i].Cursor}
		again = again || !w.ended
		if skip > 0 && !w.ended {
			w.skip = skip - 1
			continue
		}
		for j := 0; j+1 < len(steps[i].Elements); j += 2 {
			v.todo = append(v.todo, entered{shard, steps[i].Elements[j], steps[i].Elements[j+1]})
		}
	}
	// Processes that began at the same time do not visit in the same order.
	rand.Shuffle(len(v.todo), func(i, j int) { v.todo[i], v.todo[j] = v.todo[j], v.todo[i] })
	if answered {
		err = nil
	}
	return again, err
}

// draw returns how many steps of a large shard to pass over at first, so that processes
// that do not live long do not all visit its beginning.
func (v *Visitor) draw(ctx context.Context, shard int) (int, error) {
	size, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		return v.client.Do(ctx, v.client.B().Hlen().Key(key(shard)).Build()).AsInt64()
	})
	return rand.IntN(int(size)/visitCount + 1), err
}

// step asks for the next entries of a shard.
func (v *Visitor) step(ctx context.Context, shard int, cursor uint64) (rueidis.ScanEntry, error) {
	Of(v.client).structures.settle(ctx, shard)
	match := "*"
	if v.kind != "" {
		match = field(v.kind, "*")
	}
	return script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
		c := v.client
		return c.Do(ctx, c.B().Hscan().Key(key(shard)).Cursor(cursor).Match(match).Count(visitCount).Build()).AsScanEntry()
	})
}
