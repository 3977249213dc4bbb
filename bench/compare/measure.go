package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/must"
)

// figures are the results of one measurement, by name.
type figures map[string]float64

// measure is one measurement of all systems.
type measure struct {
	Name string

	// queues: systems are also measured with a queue for each tenant.
	queues bool

	// together: all systems and rounds are measured at the same time, because they wait most of it.
	together bool

	// once: another round would give the same figures.
	once bool

	// server is how Redis is run.
	server kind

	// missing says why it cannot be measured here, or ""; nil for never.
	missing func() string

	// of are the systems and variants that are measured; nil for all systems.
	of []*peer

	base job
	run  func(ctx context.Context, s *site, scale float64) (figures, error)
}

// systems returns the systems and variants that are measured.
func (m *measure) systems() []*peer {
	if m.of != nil {
		return m.of
	}
	return peers()
}

const (
	quietTenants = 200
	batchSize    = 500
)

// measures are all measurements, in the order of the tables.
var measures = slices.Concat([]measure{
	{Name: "throughput", base: job{Concurrency: 50, Tenants: 100}, run: throughput},
	{Name: "pickup", base: job{Concurrency: 10, Tenants: 100}, run: pickup},
	{Name: "flood", queues: true, base: job{Concurrency: 20, Tenants: quietTenants + 1}, run: flood},
	{Name: "slow", queues: true, base: job{Concurrency: 20, Tenants: quietTenants + 1}, run: slow},
	{Name: "kill", together: true, base: job{Concurrency: 10, Tenants: 100, VisibilityMs: 5000}, run: kill},
	{Name: "restart", base: job{Concurrency: 20, Tenants: 100, VisibilityMs: 5000}, run: restart},
	{Name: "memory", once: true, base: job{Tenants: 100}, run: memory},
	{Name: "processes", server: volatile, of: ofProcesses, base: handlersEach(1), run: processes(processCount)},
	{Name: "processes-of-ten", server: volatile, of: ofProcesses, base: handlersEach(10), run: processes(processCount)},
	{Name: "processes-aof", of: ofProcesses, base: handlersEach(1), run: processes(processCount)},
	{Name: "one-process", server: volatile, of: ofProcesses, base: handlersEach(processCount), run: processes(1)},
	{Name: "steady", server: volatile, of: ofSteady, base: job{Concurrency: 20, Tenants: 100}, run: steady},
	{Name: "instructions", once: true, server: counted, missing: missingCallgrind, of: ofInstructions, base: job{Tenants: 50}, run: instructions},
}, costs())

// scaled returns a number of messages, at least 100.
func scaled(n int, scale float64) int { return max(100, int(float64(n)*scale)) }

// quickly is a load that is written as fast as the system can.
func (s *site) quickly(first, n int) load {
	l := load{First: first, Count: n, Tenants: s.base.Tenants, Batch: 1, Writers: 32}
	if s.peer.batches {
		l.Batch, l.Writers = batchSize, 4
	}
	return l
}

// throughput writes messages one by one and in batches, has them handled, and then does both at once.
func throughput(ctx context.Context, s *site, scale float64) (figures, error) {
	n, f := scaled(10_000, scale), figures{}
	single := load{Count: n, Tenants: s.base.Tenants, Batch: 1, Writers: 32}
	if err := s.write(ctx, single); err != nil {
		return nil, err
	}
	all := n
	var err error
	if f["write_per_s"], err = s.writeRate(0); err != nil {
		return nil, err
	}
	if s.peer.batches {
		if err := s.write(ctx, s.quickly(all, n)); err != nil {
			return nil, err
		}
		if f["batch_write_per_s"], err = s.writeRate(all); err != nil {
			return nil, err
		}
		all += n
	}
	worker, err := s.work(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.awaitNoted(ctx, all); err != nil {
		return nil, err
	}
	t, err := tallyOf(s.handled(), 0)
	if err != nil {
		return nil, err
	}
	f["drain_per_s"] = float64(all) / t.end.Sub(earliest(t.first)).Seconds()
	single.First = all
	if err := s.write(ctx, single); err != nil {
		return nil, err
	}
	if err := s.awaitNoted(ctx, all+n); err != nil {
		return nil, err
	}
	if t, err = tallyOf(s.handled(), all); err != nil {
		return nil, err
	}
	began, _, err := s.writes(all)
	if err != nil {
		return nil, err
	}
	f["both_per_s"] = float64(n) / t.end.Sub(earliest(began)).Seconds()
	worker.Finish(finishWithin)
	if t, err = tallyOf(s.handled(), 0); err != nil {
		return nil, err
	}
	if len(t.times) != all+n {
		return nil, errors.New("messages are missing, although nothing crashed")
	}
	f["doubled"] = float64(t.doubled())
	return f, nil
}

// writes returns when messages from number from on were written, and the last end of a write.
func (s *site) writes(from int) (began map[int]time.Time, end time.Time, err error) {
	t, err := tallyOf(s.written(), from)
	return t.first, t.end, err
}

// writeRate returns messages a second that were written, from number from on.
func (s *site) writeRate(from int) (float64, error) {
	began, end, err := s.writes(from)
	return float64(len(began)) / end.Sub(earliest(began)).Seconds(), err
}

func earliest(times map[int]time.Time) (first time.Time) {
	for _, at := range times {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// pickup writes single messages to an idle worker.
func pickup(ctx context.Context, s *site, scale float64) (figures, error) {
	const warm = 10 // messages of which the writer and the server connect and load scripts
	n := scaled(200, scale)
	if _, err := s.work(ctx); err != nil {
		return nil, err
	}
	l := load{Count: n + warm, Tenants: s.base.Tenants, Batch: 1, Writers: 1, OverMs: 20 * (n + warm)}
	if err := s.write(ctx, l); err != nil {
		return nil, err
	}
	if err := s.awaitNoted(ctx, l.Count); err != nil {
		return nil, err
	}
	return s.waits(warm)
}

// waits returns how long messages from number from on waited for a handler, since before their write.
func (s *site) waits(from int) (figures, error) {
	t, err := tallyOf(s.handled(), from)
	if err != nil {
		return nil, err
	}
	began, _, err := s.writes(from)
	var waits []float64
	for number, at := range began {
		waits = append(waits, milliseconds(t.first[number].Sub(at)))
	}
	return quantiles(waits), err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantiles(waits []float64) figures {
	return figures{"p50_ms": must.Quantile(waits, 0.50), "p99_ms": must.Quantile(waits, 0.99)}
}

// flood has one tenant write a backlog while others write a little.
func flood(ctx context.Context, s *site, scale float64) (figures, error) {
	l := s.quickly(0, scaled(20_000, scale))
	l.HandlerMs = 5
	return beside(ctx, s, l, scale)
}

// slow has one tenant with slow handlers write a backlog while others write a little.
func slow(ctx context.Context, s *site, scale float64) (figures, error) {
	l := s.quickly(0, scaled(200, scale))
	l.HandlerMs = 500
	return beside(ctx, s, l, scale)
}

// beside measures how long quiet tenants wait, from the first write of another tenant on. The quiet
// ones are at work before.
func beside(ctx context.Context, s *site, other load, scale float64) (figures, error) {
	other.Tenant, other.Tenants = quietTenants, 1
	quiet := load{
		First: other.Count, Count: scaled(4*quietTenants, scale), Tenants: quietTenants, Batch: 1, Writers: 32,
		OverMs: max(1000, int(4000*scale)), HandlerMs: 5,
	}
	if _, err := s.work(ctx); err != nil {
		return nil, err
	}
	var failed error
	var writers sync.WaitGroup
	writers.Go(func() { failed = s.write(ctx, quiet) })
	err := await(ctx, pollEvery, "the quiet tenants write", func() (bool, error) {
		n, err := count(s.written())
		return n >= quiet.Count/4, err
	})
	if err == nil {
		err = s.write(ctx, other)
	}
	writers.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	if _, err := s.awaitHandled(ctx, quiet.First, quiet.Count); err != nil {
		return nil, err
	}
	written, err := tallyOf(s.written(), 0)
	if err != nil {
		return nil, err
	}
	t, err := tallyOf(s.handled(), 0)
	if err != nil {
		return nil, err
	}
	start, end := written.first[0], t.end // message 0 is in the first call of the other tenant
	var waits []float64
	began := 0.0
	for number, at := range written.first {
		if number >= quiet.First && !at.Before(start) {
			waits = append(waits, milliseconds(t.first[number].Sub(at)))
		}
		if first, ok := t.first[number]; ok && number < quiet.First && first.Before(end) {
			began++
		}
	}
	f := quantiles(waits)
	f["other_per_s"] = began / end.Sub(start).Seconds()
	return f, nil
}

// kill kills one of two workers.
func kill(ctx context.Context, s *site, scale float64) (figures, error) {
	n := scaled(1500, scale)
	l := s.quickly(0, n)
	l.HandlerMs = 20
	if err := s.write(ctx, l); err != nil {
		return nil, err
	}
	victim, err := s.work(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.work(ctx); err != nil {
		return nil, err
	}
	if _, err := s.awaitHandled(ctx, 0, n/2); err != nil {
		return nil, err
	}
	at := time.Now()
	victim.Kill()
	return s.afterCrash(ctx, n, at)
}

// afterCrash waits until all messages were handled after something crashed.
func (s *site) afterCrash(ctx context.Context, n int, at time.Time) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 180*time.Second)
	defer cancel()
	t, err := s.awaitHandled(ctx, 0, n)
	if ctx.Err() == nil && err != nil {
		return nil, err
	}
	return figures{"lost": float64(n - len(t.times)), "doubled": float64(t.doubled()), "recovered_s": t.end.Sub(at).Seconds()}, nil
}

// restart kills the server under a worker, and starts it again.
func restart(ctx context.Context, s *site, scale float64) (figures, error) {
	n := scaled(4000, scale)
	l := s.quickly(0, n)
	l.HandlerMs = 5
	if err := s.write(ctx, l); err != nil {
		return nil, err
	}
	if _, err := s.work(ctx); err != nil {
		return nil, err
	}
	if _, err := s.awaitHandled(ctx, 0, n/4); err != nil {
		return nil, err
	}
	at := time.Now()
	if err := s.crash(ctx); err != nil {
		return nil, err
	}
	answered := time.Now()
	f, err := s.afterCrash(ctx, n, at)
	if err != nil {
		return nil, err
	}
	t, err := tallyOf(s.handled(), 0)
	if err != nil {
		return nil, err
	}
	next := t.end
	for _, began := range t.first {
		if began.After(answered) && began.Before(next) {
			next = began
		}
	}
	f["paused_ms"] = float64(next.Sub(answered).Milliseconds())
	return f, nil
}

// memory returns the memory of waiting messages.
func memory(ctx context.Context, s *site, scale float64) (figures, error) {
	before, err := s.size(ctx)
	if err != nil {
		return nil, err
	}
	n := scaled(100_000, scale)
	if err := s.write(ctx, s.quickly(0, n)); err != nil {
		return nil, err
	}
	after, err := s.size(ctx)
	return figures{"mb_per_100k": (after - before) / float64(n) * 100_000 / 1e6}, err
}
