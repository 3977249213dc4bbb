package fairqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Ack acknowledges messages: they were handled and leave with their memory. It returns how
// many. A stale receipt is [millrace.ErrStale]; the others count all the same. Goroutines
// share calls.
//
// Other errors: [millrace.ErrBadArgument] for an invalid receipt, before Redis is asked.
func (q *Queue) Ack(ctx context.Context, receipts ...string) (int, error) {
	return q.settle(ctx, "a", "", receipts)
}

// NackConfig is how messages are given back. The zero value has them come again at once.
type NackConfig struct {
	// Delay is the time until the messages come again, in whole milliseconds. Defaults
	// to 0.
	Delay time.Duration

	// BackOff delays each message by its attempts instead, as [Backoff] does. Defaults to false.
	BackOff bool

	// Reason is shown to people who find the messages dead. The first 512 bytes are
	// kept. Defaults to "no reason given".
	Reason string

	// Dead makes the messages dead at once, so that they do not come again.
	Dead bool

	// Unstarted says that no handler began with the messages: it is no attempt, and no message
	// dies of it. Defaults to false.
	Unstarted bool
}

// maxReason is how many bytes of a reason are kept.
const maxReason = 512

// Nack gives messages back that could not be handled. Each comes again after the delay, in
// its old position, or is dead if it was delivered [Config.MaxAttempts] times. Nack returns
// how many it gave back. A stale receipt is [millrace.ErrStale]; the others count all the same.
//
// Other errors: [millrace.ErrBadArgument], before Redis is asked.
func (q *Queue) Nack(ctx context.Context, cfg NackConfig, receipts ...string) (int, error) {
	if cfg.Delay < 0 {
		return 0, millrace.ErrBadArgument.Errorf("the delay is negative: %s", cfg.Delay)
	}
	if cfg.Dead && cfg.Unstarted {
		return 0, millrace.ErrBadArgument.Errorf("a message that nobody started cannot die of it: set Dead or Unstarted")
	}
	verb := "n"
	switch {
	case cfg.Dead:
		verb = "d"
	case cfg.Unstarted:
		verb = "u"
	}
	if cfg.BackOff && verb == "n" {
		verb, cfg.Delay = "b", firstBackoff()
	}
	return q.settle(ctx, verb, settleArg(cfg.Delay, cfg.Reason), receipts)
}

// settlement is the outcome of one delivery.
type settlement struct {
	receipt receipt
	verb    string // a handled, n failed, b failed and backs off, d to die, u not started, t throttled: no attempt
	arg     string // of a how many milliseconds the handler took, "" if unknown; of the others see settleArg
}

func (s settlement) handled() bool { return s.verb == "a" }

// cost is how much of callBudget it takes.
func (s settlement) cost() int {
	if s.handled() {
		return 1
	}
	return heavyCost
}

// settleArg is the delay and the reason as the script settle takes them.
func settleArg(delay time.Duration, reason string) string {
	return millis(delay) + " " + strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// settle returns how many receipts were good.
func (q *Queue) settle(ctx context.Context, verb, arg string, texts []string) (good int, err error) {
	receipts, err := readReceipts(texts)
	if err != nil {
		return 0, err
	}
	all := make([]settlement, len(receipts))
	for i, r := range receipts {
		all[i] = settlement{r, verb, arg}
	}
	verdicts, err := q.settleAll(ctx, all)
	stale := staleOf(texts, verdicts)
	good = len(verdicts) - len(stale)
	if err != nil {
		return good, err
	}
	switch {
	case len(stale) == 0:
		return good, nil
	case len(receipts) == 1:
		return good, errStale
	}
	return good, millrace.ErrStale.Errorf("%d of %d receipts are stale: %s",
		len(stale), len(receipts), strings.Join(stale[:min(len(stale), 3)], " "))
}

// settleAll settles deliveries, in several calls if they are many. After an error the verdicts of
// the rest are missing.
func (q *Queue) settleAll(ctx context.Context, all []settlement) (verdicts []int, err error) {
	for len(all) > 0 && err == nil {
		n := 0
		for cost := 0; n < len(all) && cost+all[n].cost() <= callBudget; n++ {
			cost += all[n].cost()
		}
		request := workRequest{q: q, settle: all[:n]}
		err = q.observe(ctx, "work", func(ctx context.Context) error {
			a, err := q.shared.settle(ctx, request)
			verdicts = append(verdicts, a.verdicts...)
			return err
		})
		all = all[n:]
	}
	return verdicts, err
}

// Extend keeps messages invisible for d from now on, 10 ms to 12 h. It returns for each
// receipt whether it is good; false means that it is stale, because the message was
// cancelled or another reader has it.
func (q *Queue) Extend(ctx context.Context, d time.Duration, receipts ...string) ([]bool, error) {
	if err := checkVisibility(d); err != nil {
		return nil, err
	}
	all, err := readReceipts(receipts)
	if err != nil {
		return nil, err
	}
	return q.beat(ctx, d, nil, all)
}

// Cancel removes messages that are not done, by their ids, and returns the state in which
// each was, [Gone] also for a dead one. The context of a handler that has one ends within a
// third of its visibility, or five seconds.
//
// Errors: [millrace.ErrBadArgument] for an invalid id, before Redis is asked.
func (q *Queue) Cancel(ctx context.Context, ids ...string) (states []State, err error) {
	letters, err := q.change(ctx, "cancel", ids)
	for _, letter := range letters {
		states = append(states, map[rune]State{'d': Delayed, 'w': Waiting, 'f': InFlight, '-': Gone}[letter])
	}
	return states, err
}

// change calls the script change for a page of ids after the other. It returns their letters, with
// an error those of the pages before it.
func (q *Queue) change(ctx context.Context, verb string, ids []string) (letters string, err error) {
	if err := checkIDs(ids); err != nil {
		return "", err
	}
	for page := range slices.Chunk(ids, heavyPage) {
		reply, err := q.call(ctx, "change", append([]string{verb}, page...)...)
		if err != nil {
			return letters, err
		}
		some := strings.Repeat("-", len(page)) // without a queue
		if !reply.None() {
			some = reply.Text()
		}
		if reply.Err() != nil {
			return letters, reply.Err()
		}
		letters += some
	}
	return letters, nil
}
