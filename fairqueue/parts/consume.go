package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// brokenRest is after how long Consume tries a part again that is broken or of an unknown version.
const brokenRest = 5 * time.Second

// defaultConcurrency is that of [fairqueue.ConsumeConfig].
const defaultConcurrency = 10

// Consume handles messages of all parts until ctx ends, and returns its cause when all handlers
// have returned. The parts share [fairqueue.ConsumeConfig].Concurrency handlers, which go to
// the parts in turn.
//
// A part whose server is down, or that is broken, ends nothing: its trouble is logged, the
// handlers work for the others, and it is read again when it is back.
//
// Errors: those of [fairqueue.Queue.Consume] for the configuration, a closed client,
// [fairqueue.ErrUnhealthy], and [fairqueue.ErrUnsettled] for parts that do not answer at the end, or that broke
// before and have given no message since.
func (q *Queue) Consume(ctx context.Context, cfg fairqueue.ConsumeConfig, handler fairqueue.Handler) error {
	if cfg.Pool == nil {
		pool, err := fairqueue.NewPool(cmp.Or(cfg.Concurrency, defaultConcurrency), q.Parts()...)
		if err != nil {
			return err
		}
		cfg.Pool = pool
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var readers sync.WaitGroup
	unsettled := make([]error, len(q.parts)) // each has the cause of the end in it
	for i, p := range q.parts {
		readers.Go(func() {
			err := p.consume(reading, cfg, handler)
			if reading.Err() == nil {
				stop(err)
			}
			if errors.Is(err, fairqueue.ErrUnsettled) {
				unsettled[i] = err
			}
		})
	}
	readers.Wait()
	return cmp.Or(errors.Join(unsettled...), context.Cause(reading))
}

// consume handles messages of the part until ctx ends or no repeat would help.
func (p *part) consume(ctx context.Context, cfg fairqueue.ConsumeConfig, handler fairqueue.Handler) error {
	var unsettled atomic.Pointer[error] // of a run that ended because the part broke
	marked := func(ctx context.Context, m fairqueue.Message) error {
		unsettled.Store(nil) // the part gives messages again, and these are among them after their visibility
		return handler(ctx, p.markedOne(m))
	}
	for {
		err := p.queue.Consume(ctx, cfg, marked)
		if ctx.Err() != nil || !errors.Is(err, millrace.ErrBroken) && !errors.Is(err, millrace.ErrVersion) {
			return withUnsettled(err, unsettled.Load())
		}
		if errors.Is(err, fairqueue.ErrUnsettled) {
			unsettled.Store(&err)
		}
		p.log.ErrorContext(ctx, "a part of a queue cannot be read, while the others can", "part", p.index, "queue", p.queue.Name(), "error", err)
		rest := time.NewTimer(brokenRest)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return withUnsettled(context.Cause(ctx), unsettled.Load())
		}
	}
}

// withUnsettled returns the cause of the end, with the unsettled messages of an earlier run.
func withUnsettled(cause error, unsettled *error) error {
	if unsettled == nil || errors.Is(cause, fairqueue.ErrUnsettled) {
		return cause
	}
	return fmt.Errorf("%w (the consumer ended: %w)", *unsettled, cause)
}
