package fairqueue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/reqid"
)

// Ack says that messages were handled: they are gone, with their memory. Goroutines
// that do so at the same time share calls. It returns how many, and [millrace.ErrStale] if
// any of the receipts was stale; the others count all the same.
//
// Errors: [millrace.ErrStale]; [millrace.ErrBadArgument] for what is no receipt, before Redis was
// asked.
func (q *Queue) Ack(ctx context.Context, receipts ...string) (int, error) {
	return countOf(q.settle(ctx, "a", 0, "", receipts))
}

// NackConfig is how a message is given back. The zero value has it come again at
// once.
type NackConfig struct {
	// Delay is after how long the message comes again, in whole milliseconds.
	// Defaults to 0, at once.
	Delay time.Duration

	// Reason says why, for people who look at it when it is dead. At most 512
	// bytes are kept. Defaults to none.
	Reason string

	// Dead has the message die at once instead of coming again. Defaults to off.
	Dead bool
}

// maxReason is how much of a reason is kept, in bytes.
const maxReason = 512

// Nack gives a message back that could not be handled. It comes again after the
// delay, in its old place, or is dead when it was delivered
// [Config.MaxAttempts] times. Errors: [millrace.ErrStale], [millrace.ErrBadArgument].
func (q *Queue) Nack(ctx context.Context, receipt string, cfg NackConfig) error {
	_, err := q.NackBatch(ctx, cfg, receipt)
	return err
}

// NackBatch gives several messages back in one call per 80, all for one reason. It
// returns how many, and [millrace.ErrStale] if any of the receipts was stale; the others count
// all the same.
//
// Errors: [millrace.ErrStale]; [millrace.ErrBadArgument] for what is no receipt, before Redis was
// asked.
func (q *Queue) NackBatch(ctx context.Context, cfg NackConfig, receipts ...string) (int, error) {
	if cfg.Delay < 0 {
		return 0, millrace.ErrBadArgument.Errorf("the delay is negative: %s", cfg.Delay)
	}
	verb := "n"
	if cfg.Dead {
		verb = "d"
	}
	return countOf(q.settle(ctx, verb, cfg.Delay, cfg.Reason, receipts))
}

// brief returns as much of a reason as is kept.
func brief(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// settle returns what became of each receipt: 2 for a message that is dead now, 1, or 0 for
// a stale one.
func (q *Queue) settle(ctx context.Context, verb string, delay time.Duration, reason string, texts []string) (verdicts []int64, all []string, err error) {
	receipts, err := readReceipts(texts)
	if err != nil {
		return nil, texts, err
	}
	settle := make([]settlement, len(receipts))
	for i, r := range receipts {
		settle[i] = settled(r, verb, delay, brief(reason))
	}
	for len(settle) > 0 {
		n := min(len(settle), page)
		if verb != "a" {
			n = min(n, costly)
		}
		request := workRequest{q: q, settle: settle[:n]}
		err := q.observe(ctx, "work", func(ctx context.Context) error {
			var a workAnswer
			var err error
			if reqid.Seeded(ctx) {
				var answers []workAnswer
				if answers, err = q.shared.work(ctx, []workRequest{request}, false); err == nil {
					a = answers[0]
				}
			} else {
				a, err = q.shared.do(ctx, request)
			}
			verdicts = append(verdicts, a.verdicts...)
			return err
		})
		if err != nil {
			return verdicts, texts, err
		}
		settle = settle[n:]
	}
	return verdicts, texts, nil
}

// Extend keeps messages invisible for d from now on, from [MinVisibility] to
// [MaxVisibility]. It returns for each receipt whether that is so: false means
// that it is stale, because the message was cancelled or another reader has it.
func (q *Queue) Extend(ctx context.Context, d time.Duration, receipts ...string) ([]bool, error) {
	if err := checkVisibility(d); err != nil {
		return nil, err
	}
	all, err := readReceipts(receipts)
	if err != nil {
		return nil, err
	}
	return q.beat(ctx, d, reader{}, all)
}

// reader is what a consumer says of itself.
type reader struct {
	id, name, host string
	handlers, busy int
}

// beat extends deliveries, and says that a reader is there if it has an id.
func (q *Queue) beat(ctx context.Context, visibility time.Duration, r reader, receipts []receipt) ([]bool, error) {
	good := make([]bool, 0, len(receipts))
	for first := true; first || len(receipts) > 0; first = false {
		n := min(len(receipts), page)
		args := []string{millis(visibility), r.id, strconv.Itoa(r.handlers), strconv.Itoa(r.busy), r.name, r.host}
		for _, one := range receipts[:n] {
			args = append(args, string(one))
		}
		reply, err := q.call(ctx, "beat", args...)
		if err != nil {
			return good, err
		}
		for reply.More() {
			good = append(good, reply.Bool())
		}
		if reply.Err() != nil {
			return good, reply.Err()
		}
		receipts = receipts[n:]
	}
	return good, nil
}

// countOf counts what was done, and says which receipts were stale.
func countOf(done []int64, receipts []string, err error) (int, error) {
	var n int
	var stale []string
	for i, one := range done {
		if one > 0 {
			n++
		} else {
			stale = append(stale, receipts[i])
		}
	}
	if err == nil && len(stale) > 0 {
		err = errStale
		if len(receipts) > 1 {
			err = errStale.Errorf("%d of %d receipts are stale: %s", len(stale), len(receipts), strings.Join(stale[:min(len(stale), 3)], " "))
		}
	}
	return n, err
}

// Place is where a message is, or was when it was cancelled.
type Place string

// The places.
const (
	Nowhere  Place = ""          // there is no such message any more, or it is dead
	Delayed  Place = "delayed"   // it is set aside until its time
	Waiting  Place = "waiting"   // the next reader may have it
	InFlight Place = "in_flight" // a reader has it, and learns of it when it extends its time
)

// Cancel removes messages that are not done yet, by their ids, and returns where
// each one was. The context of a handler that has one in hand ends within a
// third of its visibility, or five seconds. Errors: [millrace.ErrBadArgument] for what is
// no id, before Redis was asked.
func (q *Queue) Cancel(ctx context.Context, ids ...string) ([]Place, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	names := map[rune]Place{'d': Delayed, 'w': Waiting, 'f': InFlight, '-': Nowhere}
	places := make([]Place, 0, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), costly)
		reply, err := q.call(ctx, "cancel", ids[:n]...)
		if err != nil {
			return places, err
		}
		for _, letter := range reply.Text() {
			places = append(places, names[letter])
		}
		if reply.Err() != nil {
			return places, reply.Err()
		}
		ids = ids[n:]
	}
	return places, nil
}
