package scatter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace"
)

// TallyConfig has the settings of a [Tally]. The zero value works.
type TallyConfig struct {
	// Every is the interval between writes. A crash loses the additions since the last
	// one, and those in flight. Defaults to 100 ms.
	Every time.Duration

	// Most is the largest number of waiting counters, including those that could not be
	// sent. Defaults to 10,000.
	Most int
}

// Tally adds up counters in memory and writes the sums at an interval, to one server: many
// events cost one call. It is safe for concurrent use. Close it, or waiting counters are lost.
//
// A failed flush is repeated as the same request; later additions go to another server if there
// is one. So an outage of less than nine minutes neither loses nor doubles anything, and a
// server that refuses connections may do so for any time; see [Session.Flush].
//
// A counter is dropped, and logged with its amount, where repeats are useless: its key has
// another type, the sum does not fit into 64 bits, or the server no longer knows whether it was
// added ("uncertain").
type Tally struct {
	*collector

	in interval // of the values
}

// collector is shared by all views of a tally.
type collector struct {
	sc   *Scatter
	cfg  TallyConfig
	send func(context.Context, *Session) error
	stop func()        // ends the loop
	gone chan struct{} // closed when the loop has ended

	rounds sync.Mutex                  // held by a round of flushes
	shard  func(key string, n int) int // guarded by rounds

	mu      sync.Mutex
	closed  bool
	batch   batch
	bundles []*Session // failed ones, and those in flight
	bundled int        // their counters
}

// Tally starts a tally, which writes until it is closed. Errors: [millrace.ErrBadArgument].
func (s *Scatter) Tally(cfg TallyConfig) (*Tally, error) { return s.tally(cfg, sendSession) }

func sendSession(ctx context.Context, session *Session) error { return session.Flush(ctx) }

func (s *Scatter) tally(cfg TallyConfig, send func(context.Context, *Session) error) (*Tally, error) {
	if cfg.Every < 0 || cfg.Most < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Every and Most cannot be negative")
	}
	cfg.Every, cfg.Most = cmp.Or(cfg.Every, 100*time.Millisecond), cmp.Or(cfg.Most, 10_000)
	ctx, stop := context.WithCancel(context.Background())
	c := &collector{sc: s, cfg: cfg, send: send, stop: stop, gone: make(chan struct{}), shard: sticky()}
	go c.loop(ctx)
	return &Tally{collector: c}, nil
}

// In returns a view of the tally whose counters go into time buckets: those of [Bucket].At, or
// of the time of the flush. Errors: [millrace.ErrBadArgument].
func (t *Tally) In(b Bucket) (*Tally, error) {
	b, err := b.checked()
	if err != nil {
		return nil, err
	}
	return &Tally{collector: t.collector, in: b.interval()}, nil
}

// Add adds n to a counter, and does no I/O. Errors: [millrace.ErrBadName]; [ErrOverflow], with
// nothing added; [millrace.ErrFull] for another counter if the most are waiting;
// [millrace.ErrBadArgument] after Close.
func (t *Tally) Add(key string, n int64) error {
	return t.note(verbAdd, key, func(b *batch) { b.add(key, n, t.in) })
}

// AddFloat is Add for counters that [Session.AddFloat] counts.
func (t *Tally) AddFloat(key string, x float64) error {
	return t.note(verbFloat, key, func(b *batch) { b.addFloat(key, x, t.in) })
}

// note adds to the batch, or returns why it cannot.
func (t *Tally) note(v verb, key string, add func(*batch)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return millrace.ErrBadArgument.Errorf("the tally is closed")
	case t.waiting() >= t.cfg.Most && t.batch.known[target{v, t.in.life, key + t.in.suffix}] == nil:
		return millrace.ErrFull.Errorf("%d counters wait to be written", t.cfg.Most).
			WithHint("See whether the servers can be reached, or raise TallyConfig.Most.")
	}
	add(&t.batch)
	err := t.batch.err
	t.batch.err = nil
	return err
}

// waiting returns the number of waiting counters. The lock is held.
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

// round sends all bundles at the same time, each in a call. It returns how many counters still
// wait, and why.
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
		c.shard = sticky() // later additions may have more luck
	}
	return c.waiting(), err
}

// take moves the batch into bundles, and returns all bundles.
func (c *collector) take() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundles = append(c.bundles, c.split(c.batch.ops, maxOperations)...)
	c.bundled += len(c.batch.ops)
	c.batch = batch{}
	return c.bundles
}

// split returns sessions with at most most of the counters each.
func (c *collector) split(ops []*op, most int) (bundles []*Session) {
	for ops := range slices.Chunk(ops, most) {
		bundles = append(bundles, &Session{draft: &draft{sc: c.sc, shard: c.shard, batch: batch{ops: ops, size: len(ops)}}})
	}
	return bundles
}

// deliver sends a bundle, and returns the part that is not written, and why. If the server refused it,
// with nothing written, deliver sends the halves.
func (c *collector) deliver(ctx context.Context, s *Session) (left []*Session, err error) {
	ops := s.ops()
	err = c.send(ctx, s)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, millrace.ErrStale), refused(err) && len(ops) == 1:
		for _, o := range ops {
			c.sc.cfg.Logger.ErrorContext(ctx, "an addition to a counter is dropped",
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

// Close stops the tally and writes the waiting counters once. The error says how many could not
// be written, and why; another Close tries again.
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
