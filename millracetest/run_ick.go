package millracetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/failure"
)

// dirty is an Ick or a channel of Icks.
type dirty interface {
	*ick.Ick | *ick.Channel

	Name() string
	Consume(ctx context.Context, cfg ick.ConsumeConfig, handler ick.Handler) error
}

// CleanConfig configures [RunUntilClean]. The zero value handles members that are due now.
type CleanConfig struct {
	// Consume configures the consumer.
	Consume ick.ConsumeConfig

	// Within is how far ahead the run goes: it also handles marks that settle, and members that
	// are tried again, so long after its start. Defaults to 0: they stay, and the result counts them.
	Within time.Duration

	// Clock is the server whose clock moves towards the next mark that is due, if it is a [Mini].
	// Otherwise the run waits. Defaults to nil: it waits.
	Clock *Server
}

// CleanResult is the result of a run, and the members that remain.
type CleanResult struct {
	Batches []Batch // the calls of the handler, in the order of their ends

	Waiting int // marks that are due later than the run went, or whose batches failed
	Parked  int // members that failed and are parked
}

// Batch is one call of the handler.
type Batch struct {
	Members []string // oldest mark first
	Failed  []string // those that the error names; none if it is about the whole batch
	Err     error    // the handler's error; [ErrNotReturned] after a panic
}

// mostFailures is after how many failed batches in a row a run ends.
const mostFailures = 3

// RunUntilClean handles marks as [ick.Ick.Consume] or [ick.Channel.Consume] does, with parking and
// retries, and returns when nothing is dirty, or due within [CleanConfig].Within. When the handler
// failed three whole batches in a row, and not single members with [ick.Failed], the run ends, too.
//
// A run of a channel whose last marks are not due takes a second or more of real time to know it.
//
// In the handler use t.Error. After t.Fatal the batch counts as failed, and the run goes on.
func RunUntilClean[D dirty](t testing.TB, d D, handler ick.Handler, cfg CleanConfig) CleanResult {
	t.Helper()
	r := &cleaning[D]{t: t, d: d, handler: handler, cfg: cfg}
	step := dueEvery
	for left := cfg.Within; ; {
		before := r.calls()
		r.consume()
		s := sum(r.t, d)
		if r.calls() > before {
			step = dueEvery
		}
		if s.waiting+s.reserved+s.parked == 0 || left <= 0 || r.gaveUp() {
			r.result.Waiting, r.result.Parked = s.waiting+s.reserved, s.parked
			return r.result
		}
		step = min(step, left)
		passTime(t, cfg.Clock, step)
		left -= step
		step *= 2
	}
}

// cleaning is one call of RunUntilClean.
type cleaning[D dirty] struct {
	t       testing.TB
	d       D
	handler ick.Handler
	cfg     CleanConfig

	mu       sync.Mutex
	running  int // handlers
	failures int // whole batches in a row
	result   CleanResult
}

func (r *cleaning[D]) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.result.Batches)
}

func (r *cleaning[D]) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running > 0
}

func (r *cleaning[D]) gaveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures >= mostFailures
}

// handle calls the handler and notes the result.
func (r *cleaning[D]) handle(ctx context.Context, entries []ick.Entry) error {
	members := make([]string, len(entries))
	for i, e := range entries {
		members[i] = e.Member
	}
	r.mu.Lock()
	if r.failures >= mostFailures { // the run is about to end
		r.mu.Unlock()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	r.running++
	r.mu.Unlock()
	panicked, err := apart(r.t, func() error { return r.handler(ctx, entries) })
	var failed []string
	named := failure.Named(err)
	for _, m := range members {
		if _, ok := named[m]; ok {
			failed = append(failed, m)
		}
	}
	r.mu.Lock()
	r.running--
	r.result.Batches = append(r.result.Batches, Batch{members, failed, err})
	if r.failures++; err == nil || len(failed) > 0 {
		r.failures = 0
	}
	r.mu.Unlock()
	if panicked != nil {
		panic(panicked) // the consumer reports it
	}
	return err
}

// consume runs a consumer until nothing is due and all that it did is committed.
func (r *cleaning[D]) consume() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.d.Consume(ctx, r.cfg.Consume, r.handle) }()
	calls, last, still, moved := 0, sums{}, 0, time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		s, busy, now := sum(r.t, r.d), r.busy(), r.calls()
		if busy || s != last || now != calls {
			still, moved, pause = 0, time.Now(), time.Millisecond
		} else {
			still++
		}
		calls, last = now, s
		switch quiet := time.Since(moved); {
		case busy:
		case r.gaveUp(), s.reserved == 0 && !r.due(s, still):
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				r.t.Fatalf("RunUntilClean: the consumer of %q ended: %v", r.d.Name(), err)
			}
			return
		case quiet > stallTimeout:
			r.t.Fatalf("RunUntilClean: %q makes no progress for %s (if the test moved the clock, set CleanConfig.Clock): %d wait, %d are reserved, %d parked",
				r.d.Name(), stallTimeout, s.waiting, s.reserved, s.parked)
		}
		select {
		case err := <-ended:
			r.t.Fatalf("RunUntilClean: the consumer of %q ended: %v", r.d.Name(), err)
		case <-time.After(pause):
		}
	}
}

// due reports whether a consumer could get a mark now. An Ick says so. A channel does not: nothing
// is due if its Icks have their consumer, and in so many polls nothing happened, which take longer than the consumer sleeps.
func (r *cleaning[D]) due(s sums, still int) bool {
	r.t.Helper()
	if s.waiting+s.parked == 0 {
		return false
	}
	k, single := any(r.d).(*ick.Ick)
	if !single {
		const sleep = 80 // polls of 20 ms; a machine that stands still stops them, too
		return !s.owned || still < sleep
	}
	got, err := k.Reserve(r.t.Context(), 1) // the consumer gets the same again
	if err != nil {
		r.t.Fatalf("reserve of %q: %v", k.Name(), err)
	}
	return len(got.Entries) > 0
}

// sums is the state of an Ick, or of all Icks of a channel.
type sums struct {
	waiting, reserved, parked int
	done                      ick.Counters
	owned                     bool // each Ick with marks has a consumer
}

func sum[D dirty](t testing.TB, d D) sums {
	t.Helper()
	s := sums{owned: true}
	for _, k := range statsOf(t, d) {
		s.waiting += k.Waiting.Size
		s.reserved += k.Reserved.Size
		s.parked += k.Parked
		s.done.Committed += k.Counters.Committed
		s.done.Parked += k.Counters.Parked
		s.owned = s.owned && (k.Owner != "" || k.Total+k.Parked == 0)
	}
	return s
}

// statsOf returns the states of the Icks; there are none if nothing was added yet.
func statsOf[D dirty](t testing.TB, d D) []ick.Stats {
	t.Helper()
	var all []ick.Stats
	var err error
	switch d := any(d).(type) {
	case *ick.Ick:
		all = make([]ick.Stats, 1)
		all[0], err = d.Stats(t.Context())
	case *ick.Channel:
		var s ick.ChannelStats
		s, err = d.Stats(t.Context())
		all = s.Icks
	}
	if errors.Is(err, millrace.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatalf("the state of %q: %v", d.Name(), err)
	}
	return all
}
