package scatter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace"
)

// TallyConfig is how counters are collected before they are written. The zero value
// works.
type TallyConfig struct {
	// Every is how long what is added may wait before it is sent. It is also what a
	// crash loses: what was added since the last time, and what is under way. Defaults
	// to 100 ms.
	Every time.Duration

	// Most is how many counters may wait, those that could not be sent included.
	// Defaults to 10,000.
	Most int
}

// Defaults of TallyConfig.
const (
	DefaultTallyEvery = 100 * time.Millisecond
	DefaultTallyMost  = 10_000
)

// Tally collects what is added to counters in memory, and writes the sums every now and
// then, to one server: many events cost one call. It is safe for concurrent use. Close
// it, or what waits is lost.
//
// A flush that failed is repeated as it was, as the same request, and what is added
// meanwhile goes to another server if there is one. So an outage of less than nine
// minutes neither loses nor doubles anything, and one of a server that refuses
// connections may take as long as it likes; see [Session.Flush].
//
// A counter is dropped, and logged with what was to be added, where repeats are of no
// use: its key holds something else, the sum does not fit into 64 bits, or the server
// can no longer tell whether it was added ("uncertain").
type Tally struct {
	*collector

	in stretch // where the values are put
}

// collector is what all views of a tally share.
type collector struct {
	sc   *Scatter
	cfg  TallyConfig
	send func(context.Context, *Session) error
	stop func()        // ends the loop
	gone chan struct{} // closed when it has ended

	rounds sync.Mutex // held by the one round of flushes
	shard  Shard      // guarded by rounds

	mu      sync.Mutex
	closed  bool
	batch   batch
	bundles []*Session // those that failed, and those under way
	bundled int        // the counters in them
}

// Tally returns a new tally, which writes until it is closed. Errors: [millrace.ErrBadArgument].
func (s *Scatter) Tally(cfg TallyConfig) (*Tally, error) { return s.tally(cfg, sendSession) }

func sendSession(ctx context.Context, session *Session) error { return session.Flush(ctx) }

func (s *Scatter) tally(cfg TallyConfig, send func(context.Context, *Session) error) (*Tally, error) {
	if cfg.Every < 0 || cfg.Most < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Every and Most cannot be negative")
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultTallyEvery
	}
	if cfg.Most == 0 {
		cfg.Most = DefaultTallyMost
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &collector{sc: s, cfg: cfg, send: send, stop: stop, gone: make(chan struct{}), shard: Sticky()}
	go c.loop(ctx)
	return &Tally{collector: c}, nil
}

// In returns a view of the tally whose counters are put into time buckets: into those
// of the time of the flush, unless the bucket says when. Errors: [millrace.ErrBadArgument].
func (t *Tally) In(b Bucket) (*Tally, error) {
	b, err := b.checked()
	if err != nil {
		return nil, err
	}
	return &Tally{collector: t.collector, in: b.stretch()}, nil
}

// Add adds n to a counter, and does no I/O. Errors: [millrace.ErrBadName]; [ErrOverflow], with
// nothing added; [millrace.ErrFull] for a further counter if so many wait that no more
// may; [millrace.ErrBadArgument] after Close.
func (t *Tally) Add(key string, n int64) error {
	return t.note(verbAdd, key, t.in, func(b *batch) { b.add(key, n, t.in) })
}

// AddFloat is Add for counters that [Session.AddFloat] counts.
func (t *Tally) AddFloat(key string, x float64) error {
	return t.note(verbFloat, key, t.in, func(b *batch) { b.addFloat(key, x, t.in) })
}

// note adds to the batch, which takes nothing that it cannot have.
func (c *collector) note(v verb, key string, in stretch, add func(*batch)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return millrace.ErrBadArgument.Errorf("the tally is closed")
	case c.waiting() >= c.cfg.Most && !c.batch.has(v, key, in):
		e := millrace.ErrFull.Errorf("%d counters wait to be written", c.cfg.Most)
		e.Hint = "See whether the servers can be reached, or raise TallyConfig.Most."
		return e
	}
	add(&c.batch)
	err := c.batch.err
	c.batch.err = nil
	return err
}

// waiting returns how many counters wait. The lock is held.
func (c *collector) waiting() int { return len(c.batch.ops) + c.bundled }

func (c *collector) loop(ctx context.Context) {
	defer close(c.gone)
	ticker := time.NewTicker(c.cfg.Every)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		left, err := c.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			c.sc.cfg.Logger.WarnContext(ctx, "counters cannot be written, and wait", "counters", left, "error", err)
		case err == nil && failing:
			c.sc.cfg.Logger.InfoContext(ctx, "counters are written again")
		}
		failing = err != nil
	}
}

// round sends all that waits, each bundle in a call, all at the same time. It returns how
// many counters wait then, and why.
func (c *collector) round(ctx context.Context) (int, error) {
	c.rounds.Lock()
	defer c.rounds.Unlock()
	bundles := c.take()
	left, errs := make([][]*Session, len(bundles)), make([]error, len(bundles))
	var calls sync.WaitGroup
	for i, s := range bundles {
		calls.Go(func() { left[i], errs[i] = c.deliver(ctx, s) })
	}
	calls.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundles, c.bundled = slices.Concat(left...), 0
	for _, s := range c.bundles {
		c.bundled += len(s.ops())
	}
	err := errors.Join(errs...)
	if err != nil {
		c.shard = Sticky() // what is added from now on may have more luck
	}
	return c.waiting(), err
}

// take turns what was collected into bundles, and returns all that are to be sent.
func (c *collector) take() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundles = append(c.bundles, c.split(c.batch.ops, MaxOperations)...)
	c.bundled += len(c.batch.ops)
	c.batch = batch{}
	return c.bundles
}

// split returns sessions with so many of the counters each.
func (c *collector) split(ops []*op, most int) (bundles []*Session) {
	for ops := range slices.Chunk(ops, most) {
		bundles = append(bundles, &Session{draft: &draft{sc: c.sc, shard: c.shard, batch: batch{ops: ops, size: len(ops)}}})
	}
	return bundles
}

// deliver sends a bundle, and returns what is left of it, and why. Of one that is refused,
// with nothing written, it sends the halves.
func (c *collector) deliver(ctx context.Context, s *Session) (left []*Session, err error) {
	ops := s.ops()
	err = c.send(ctx, s)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, millrace.ErrUncertain), refused(err) && len(ops) == 1:
		for _, o := range ops {
			c.sc.cfg.Logger.ErrorContext(ctx, "what was to be added to a counter is dropped",
				"key", o.key, "kind", o.verb, "add", o.sum, "float", o.float, "error", err)
		}
		return nil, nil
	case !refused(err):
		return []*Session{s}, err
	}
	var errs []error
	for _, half := range c.split(ops, (len(ops)+1)/2) {
		more, err := c.deliver(ctx, half)
		left, errs = append(left, more...), append(errs, err)
	}
	return left, errors.Join(errs...)
}

// Close writes what waits, once, and takes no more. The error says how many counters
// could not be written, and why; Close again tries again.
func (t *Tally) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	<-t.gone
	if left, err := t.round(ctx); err != nil {
		return fmt.Errorf("%d counters could not be written: %w", left, err)
	}
	return nil
}
