package fairqueue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// Ack says that messages were handled: they are gone, with their memory. Goroutines
// that do so at the same time share calls. It returns how many, and [ErrStale] if
// any of the receipts was stale; the others count all the same.
//
// Errors: [ErrStale]; [millrace.ErrBadArgument] for what is no receipt, before Redis was asked.
func (q *Queue) Ack(ctx context.Context, receipts ...string) (int, error) {
	if err := checkReceipts(receipts); err != nil {
		return 0, err
	}
	var done []int64
	for first := 0; first < len(receipts); first += chunk {
		some, err := q.acks.do(ctx, receipts[first:min(first+chunk, len(receipts))])
		if err != nil {
			return countOf(done, receipts, err)
		}
		done = append(done, some...)
	}
	return countOf(done, receipts, nil)
}

// ack makes one script call. It answers 1 for each receipt whose message is gone
// by it, and 0 for a stale one.
func (q *Queue) ack(ctx context.Context, receipts []string) ([]int64, error) {
	args, order := grouped(receipts)
	stale, err := q.integers(ctx, "ack", args...)
	if err != nil {
		return nil, err
	}
	done := make([]int64, len(receipts))
	for i := range done {
		done[i] = 1
	}
	for _, number := range stale {
		if number < 1 || int(number) > len(order) {
			return nil, fmt.Errorf("fairqueue.ack answered that entry %d of %d is stale", number, len(order))
		}
		done[order[number-1]] = 0
	}
	return done, nil
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
// delay, at the end of its stream, or is dead when it was delivered
// [Config.MaxAttempts] times. Errors: [ErrStale], [millrace.ErrBadArgument].
func (q *Queue) Nack(ctx context.Context, receipt string, cfg NackConfig) error {
	_, err := q.NackBatch(ctx, cfg, receipt)
	return err
}

// NackBatch gives several messages back in one call per 1,000, all for one reason. It
// returns how many, and [ErrStale] if any of the receipts was stale; the others count
// all the same.
//
// Errors: [ErrStale]; [millrace.ErrBadArgument] for what is no receipt, before Redis was asked.
func (q *Queue) NackBatch(ctx context.Context, cfg NackConfig, receipts ...string) (int, error) {
	if cfg.Delay < 0 {
		return 0, millrace.ErrBadArgument.Saying("the delay is negative: %s", cfg.Delay)
	}
	how := "failed"
	if cfg.Dead {
		how = "dead"
	}
	return countOf(q.nack(ctx, how, cfg.Delay, cfg.Reason, receipts...))
}

// nack returns what became of each receipt: 2 for dead, 1 for back, 0 for stale.
func (q *Queue) nack(ctx context.Context, how string, delay time.Duration, reason string, receipts ...string) (done []int64, all []string, err error) {
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	done, err = q.settle(ctx, "nack", []string{how, millis(delay), strconv.Itoa(q.cfg.MaxAttempts), reason}, receipts)
	return done, receipts, err
}

// Extend keeps messages invisible for d from now on, from [MinVisibility] to
// [MaxVisibility]. It returns for each receipt whether that is so: false means
// that it is stale, because the message was cancelled or another reader has it.
func (q *Queue) Extend(ctx context.Context, d time.Duration, receipts ...string) ([]bool, error) {
	if err := checkVisibility(d); err != nil {
		return nil, err
	}
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	good := make([]bool, 0, len(receipts))
	for first := 0; first < len(receipts); first += chunk {
		args := append([]string{millis(d)}, receipts[first:min(first+chunk, len(receipts))]...)
		done, err := q.integers(ctx, "extend", args...)
		if err != nil {
			return good, err
		}
		for _, n := range done {
			good = append(good, n == 1)
		}
	}
	return good, nil
}

// settle runs a script that takes some arguments and receipts.
func (q *Queue) settle(ctx context.Context, name string, args, receipts []string) ([]int64, error) {
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	var all []int64
	for first := 0; first < len(receipts); first += chunk {
		call := slices.Concat(args, receipts[first:min(first+chunk, len(receipts))])
		done, err := q.integers(ctx, name, call...)
		if err != nil {
			return all, err
		}
		all = append(all, done...)
	}
	return all, nil
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
		err = ErrStale
		if len(receipts) > 1 {
			err = ErrStale.Saying("%d of %d receipts are stale: %s", len(stale), len(receipts), strings.Join(stale[:min(len(stale), 3)], " "))
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
// third of its visibility. Errors: [millrace.ErrBadArgument] for what is no id, before Redis
// was asked.
func (q *Queue) Cancel(ctx context.Context, ids ...string) ([]Place, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	names := map[string]Place{"d": Delayed, "w": Waiting, "f": InFlight, "-": Nowhere}
	places := make([]Place, 0, len(ids))
	for first := 0; first < len(ids); first += chunk {
		reply, err := q.call(ctx, "cancel", ids[first:min(first+chunk, len(ids))]...)
		if err != nil {
			return places, err
		}
		for reply.More() {
			places = append(places, names[reply.Text()])
		}
		if reply.Err() != nil {
			return places, reply.Err()
		}
	}
	return places, nil
}
