package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// leastBlock is the minimum of a Block while parts have not answered, as in [fairqueue.ReadConfig].
const leastBlock = 100 * time.Millisecond

// Read takes messages of one part: of the first one that has some, each time from another part on. If none has
// and [fairqueue.ReadConfig].Block is set, it waits for all at once, and ends with the Block whatever they do.
// A part that does not answer as fast as it used to delays no other: the next one is asked, too. Where nothing is
// found without a Block, Read waits for an answer of each part for [Config.Timeout], and not for one that did not
// answer lately.
//
// The parts share the handlers of a [fairqueue.ReadConfig].Worker, as those of Consume. One that leaves leaves all of them.
//
// Errors: those of [fairqueue.Queue.Read]. [fairqueue.ErrEmpty] says that no part that answered has a message. If
// no part answered, it is the error of one.
func (q *Queue) Read(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	if cfg.Leave {
		return nil, q.leave(ctx, cfg)
	}
	cfg, err := q.workers.share(cfg, q)
	if err != nil {
		return nil, err
	}
	end, until := ctx, time.Now().Add(cfg.Block)
	if cfg.Block > 0 {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(ctx, max(cfg.Block, leastBlock))
		defer cancel()
	}
	r := &round{q: q, ctx: ctx, end: end, answers: make(chan answer, 2*len(q.parts))}
	defer r.leave()
	now := cfg
	now.Block = 0
	for _, p := range q.inTurn() {
		if s, _ := p.look(); s == silent {
			r.skip(p)
			continue
		}
		r.ask(p, func() ([]fairqueue.Message, error) { return p.read(ctx, now) })
		if r.wait(p.waits()) {
			return r.messages, r.err
		}
	}
	if cfg.Block > 0 {
		cfg.Block = max(0, time.Until(until))
	}
	if cfg.Block != 0 {
		waiting, stop := context.WithCancel(end)
		defer stop()
		for _, p := range q.parts {
			r.ask(p, func() ([]fairqueue.Message, error) { return p.await(waiting, cfg) })
		}
	}
	for r.pending > 0 {
		if r.wait(-1) {
			return r.messages, r.err
		}
	}
	return nil, r.nothing()
}

// leave ends a worker in all parts at once.
func (q *Queue) leave(ctx context.Context, cfg fairqueue.ReadConfig) error {
	var leaving sync.WaitGroup
	failed := make([]error, len(q.parts))
	for i, p := range q.parts {
		leaving.Go(func() {
			within, cancel := context.WithTimeout(ctx, p.timeout)
			defer cancel()
			_, failed[i] = p.queue.Read(within, cfg)
		})
	}
	leaving.Wait()
	return errors.Join(failed...)
}

// round is one read of several parts.
type round struct {
	q        *Queue
	ctx, end context.Context //nolint:containedctx // it lives as long as the call; end also ends with the Block
	answers  chan answer
	pending  int // answers that are to come

	answered, paused bool
	failure          error // of a part that did not answer

	messages []fairqueue.Message // the result
	err      error
}

type answer struct {
	part     *part
	messages []fairqueue.Message
	err      error
}

// ask reads a part in the background.
func (r *round) ask(p *part, read func() ([]fairqueue.Message, error)) {
	r.pending++
	go func() {
		messages, err := read()
		r.answers <- answer{p, messages, err}
	}()
}

// skip notes that a part is not asked.
func (r *round) skip(p *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.failure = cmp.Or(r.failure, p.failure)
}

// wait waits for an answer, for so long at most, or without a bound if that is negative. It reports whether the
// round is over.
func (r *round) wait(most time.Duration) bool {
	var over <-chan time.Time
	if most >= 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case a := <-r.answers:
		r.pending--
		switch {
		case len(a.messages) > 0:
			r.messages = a.part.marked(a.messages)
			return true
		case errors.Is(a.err, millrace.ErrBadArgument):
			r.err = a.err
			return true
		case errors.Is(a.err, fairqueue.ErrPaused):
			r.answered, r.paused = true, true
		case errors.Is(a.err, fairqueue.ErrEmpty):
			r.answered = true
		default:
			r.failure = a.err
		}
		return false
	case <-over:
		return false
	case <-r.end.Done():
		r.err = r.nothing()
		return true
	}
}

// nothing is the error of a round without messages.
func (r *round) nothing() error {
	switch {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case r.paused:
		return fairqueue.ErrPaused
	case r.answered:
		return fairqueue.ErrEmpty
	case r.failure != nil:
		return r.failure
	}
	return fmt.Errorf("no part of the queue answered: %w", context.DeadlineExceeded)
}

// leave hands back messages that parts deliver after the read.
func (r *round) leave() {
	if r.pending == 0 {
		return
	}
	go func() {
		for range r.pending {
			late := <-r.answers
			late.part.handBack(late.messages)
		}
	}()
}

// read takes available messages of the part. It goes on when its caller has left, until it is known whether
// the part answers.
func (p *part) read(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	start := time.Now()
	messages, err := p.queue.Read(within, cfg)
	if err != nil && fails(err) {
		if within.Err() != nil {
			err = fmt.Errorf("part %d of the queue did not answer within %s: %w", p.index, p.timeout, err)
		}
		p.note(err)
		return nil, err
	}
	p.answered(time.Since(start))
	return messages, err
}

// await waits for a message of the part. Trouble with its server does not end the wait: the
// part may come back.
func (p *part) await(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	end := time.Now().Add(cfg.Block)
	for {
		messages, err := p.queue.Read(ctx, cfg)
		if err == nil || ctx.Err() != nil || !fails(err) {
			return messages, err
		}
		p.note(err)
		rest := time.NewTimer(longestRest / 10)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return nil, err
		}
		if cfg.Block > 0 {
			if cfg.Block = time.Until(end); cfg.Block <= 0 {
				return nil, err
			}
		}
	}
}

// inTurn returns all parts, each time from another one on.
func (q *Queue) inTurn() []*part {
	first := int(q.turn.Add(1) % uint64(len(q.parts)))
	return slices.Concat(q.parts[first:], q.parts[:first])
}

// marked puts the part in front of the ids and receipts of messages.
func (p *part) marked(messages []fairqueue.Message) []fairqueue.Message {
	for i := range messages {
		messages[i] = p.markedOne(messages[i])
	}
	return messages
}

func (p *part) markedOne(m fairqueue.Message) fairqueue.Message {
	m.ID = p.mark(m.ID)
	if m.Receipt != "" {
		m.Receipt = p.mark(m.Receipt)
	}
	if m.Batch != "" {
		m.Batch = p.mark(m.Batch)
	}
	if id := m.Headers[fairqueue.HeaderBatch]; id != "" {
		m.Headers[fairqueue.HeaderBatch] = p.mark(id)
	}
	return m
}

// handBack returns messages that no reader took.
func (p *part) handBack(messages []fairqueue.Message) {
	if len(messages) == 0 {
		return
	}
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = m.Receipt
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestRest)
	defer cancel()
	if _, err := p.queue.Nack(ctx, fairqueue.NackConfig{Unstarted: true}, receipts...); err != nil {
		p.log.Warn("messages could not be handed back; they come again after their visibility", "part", p.index, "messages", len(messages), "error", err)
	}
}
