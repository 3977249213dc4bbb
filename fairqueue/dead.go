package fairqueue

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// DeadLetters are the dead messages of a queue: those that were delivered too often, or are not
// worth a retry.
type DeadLetters struct{ q *Queue }

// Dead returns the dead messages of the queue.
func (q *Queue) Dead() DeadLetters { return DeadLetters{q} }

// All yields the dead messages, oldest death first. A queue that does not exist has none.
func (d DeadLetters) All(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for cfg := (BrowseConfig{State: Dead, Max: page}); ; {
			messages, next, err := d.q.Browse(ctx, cfg)
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
			}
			if err != nil && !errors.Is(err, millrace.ErrNotFound) {
				yield(Message{}, err)
			}
			if err != nil || next == "" {
				return
			}
			cfg.After = next
		}
	}
}

// Redrive makes dead messages wait again, as if they had never been delivered and without
// their deadline. It returns how many of them were dead. [Queue.Retry] does it to those that match.
func (d DeadLetters) Redrive(ctx context.Context, ids ...string) (n int, err error) {
	letters, err := d.q.change(ctx, "redrive", ids)
	return strings.Count(letters, "x"), err
}

// Purge removes dead messages for good. It returns how many of them were dead.
func (d DeadLetters) Purge(ctx context.Context, ids ...string) (n int, err error) {
	letters, err := d.q.change(ctx, "purge", ids)
	return strings.Count(letters, "x"), err
}

// Keep bounds how many dead messages the queue keeps, and for how long, in whole milliseconds:
// without it [DefaultDeadMost] and [DefaultDeadAge]. When another one dies, the oldest are dropped,
// and [Stats].Counters.Dropped counts them. 0 is no bound.
func (d DeadLetters) Keep(ctx context.Context, most int, age time.Duration) error {
	if most < 0 || age < 0 {
		return millrace.ErrBadArgument.Errorf("a queue cannot keep %d dead messages for %s", most, age)
	}
	return d.q.set(ctx, "dead_most", strconv.Itoa(most), "dead_age", millis(age))
}

// After sets after how many deliveries without an acknowledgement a message is dead, for processes whose
// Config.MaxAttempts is 0, such as the service. 0 is the default, 5. A process whose Config has a number
// sets that one with its next write.
func (d DeadLetters) After(ctx context.Context, attempts int) error {
	switch {
	case attempts < 0:
		return millrace.ErrBadArgument.Errorf("a message cannot have %d attempts", attempts)
	case attempts == 0:
		return d.q.set(ctx, "attempts", "")
	}
	return d.q.set(ctx, "attempts", strconv.Itoa(attempts))
}

// PurgeMatching removes dead messages that match for good. It ignores cfg.State. The rest is as in [Queue.Retry].
func (d DeadLetters) PurgeMatching(ctx context.Context, cfg SearchConfig) (int, Found, error) {
	cfg.State = Dead
	return d.q.eachMatching(ctx, cfg, d.Purge)
}
