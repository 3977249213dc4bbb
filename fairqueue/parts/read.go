package parts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// Read takes messages of one part: of the first one that has some, each time from another part
// on. If none has and [fairqueue.ReadConfig].Block is set, it waits for all at once. A part that
// does not answer delays the others by [Config.Timeout] once, and then not.
//
// The parts share the handlers of a [fairqueue.ReadConfig].Worker, as those of Consume.
//
// Errors: those of [fairqueue.Queue.Read]. [fairqueue.ErrEmpty] says that no part that answered
// has a message.
func (q *Queue) Read(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	cfg, err := q.workers.share(cfg, q)
	if err != nil {
		return nil, err
	}
	block := cfg.Block
	cfg.Block = 0
	err = fairqueue.ErrEmpty
	for _, p := range q.inTurn() {
		if open, _ := p.state(); !open {
			continue
		}
		within, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		messages, failed := p.queue.Read(within, cfg)
		cancel()
		switch {
		case len(messages) > 0:
			return p.marked(messages), nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(failed, millrace.ErrBadArgument), errors.Is(failed, fairqueue.ErrPaused):
			err = failed
		case !errors.Is(failed, fairqueue.ErrEmpty):
			p.note(failed)
		}
	}
	if block == 0 || errors.Is(err, millrace.ErrBadArgument) {
		return nil, err
	}
	cfg.Block = block
	return q.await(ctx, cfg)
}

// await waits for the first part that has messages. What others deliver at the same moment is
// handed back.
func (q *Queue) await(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	type result struct {
		part     *part
		messages []fairqueue.Message
		err      error
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan result, len(q.parts))
	for _, p := range q.parts {
		go func() {
			messages, err := p.awaitOne(waiting, cfg)
			results <- result{p, messages, err}
		}()
	}
	err := error(fairqueue.ErrEmpty)
	for left := len(q.parts); left > 0; left-- {
		r := <-results
		if len(r.messages) > 0 {
			stop()
			go func() {
				for range left - 1 {
					late := <-results
					late.part.handBack(late.messages)
				}
			}()
			return r.part.marked(r.messages), nil
		}
		if !errors.Is(r.err, fairqueue.ErrEmpty) {
			err = r.err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// awaitOne waits for a message of the part. Trouble with its server does not end the wait: the
// part may come back.
func (p *part) awaitOne(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error) {
	end := time.Now().Add(cfg.Block)
	for {
		messages, err := p.queue.Read(ctx, cfg)
		if err == nil || errors.Is(err, fairqueue.ErrEmpty) || errors.Is(err, fairqueue.ErrPaused) || ctx.Err() != nil || !p.fails(err) {
			return messages, err
		}
		p.note(err)
		rest := time.NewTimer(longestRest / 10)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return nil, context.Cause(ctx)
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
	return m
}

// handBack returns messages that nobody took.
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
