package ick

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/failure"
	"github.com/millrace/millrace/internal/redis/script"
)

// Failed returns the error with which a [Handler] reports that these members of the batch failed
// for the reason err, which may be nil, and that the others succeeded. Without members it
// returns nil. Join several reasons:
//
//	errors.Join(ick.Failed(errTooLarge, "a", "b"), ick.Failed(errNoRow, "c"))
func Failed(err error, members ...string) error {
	if len(members) == 0 {
		return nil
	}
	return &failure.Error{Reason: err, Members: members}
}

// failures returns the members of the batch that failed according to err, with the reason.
func failures(err error, entries []Entry) map[string]string {
	named := failure.Named(err)
	failed := make(map[string]string, len(named))
	for _, e := range entries {
		if reason, ok := named[e.Member]; ok {
			failed[e.Member] = reason
		}
	}
	return failed
}

// maxReason is how much of a reason is stored, in bytes.
const maxReason = 512

// park moves members from the consumer set to the parked ones, and returns how many it moved.
func (k *Ick) park(ctx context.Context, token string, cfg ConsumeConfig, reason string, members []string) (int, error) {
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	var parked int
	for part := range script.Chunks(members, chunk, func(m string) int { return len(m) }) {
		args := []string{
			token, strconv.Itoa(cfg.MaxAttempts), strconv.FormatInt(cfg.RetryDelay.Milliseconds(), 10),
			strconv.FormatInt(maxRetryDelay.Milliseconds(), 10), reason,
		}
		reply, err := k.call(ctx, "park", append(args, part...)...)
		if err != nil {
			return parked, err
		}
		parked += int(reply.Int())
		if reply.Err() != nil {
			return parked, reply.Err()
		}
	}
	return parked, nil
}

// parkAll parks members by their reasons, and logs that.
func (k *Ick) parkAll(ctx context.Context, token string, cfg ConsumeConfig, failed map[string]string) error {
	reasons := make(map[string][]string)
	for member, reason := range failed {
		reasons[reason] = append(reasons[reason], member)
	}
	for reason, members := range reasons {
		k.cfg.Logger.WarnContext(ctx, "members failed and are parked", "ick", k.name, "members", len(members), "reason", reason)
		if _, err := k.park(ctx, token, cfg, reason, members); err != nil {
			return fmt.Errorf("park failed members: %w", err)
		}
	}
	return nil
}

// Parked is a member that failed and waits for its next try.
type Parked struct {
	Entry

	Attempts int       // how often it failed
	At       time.Time // when it was parked
	Until    time.Time // when it is tried again; zero if only after a new mark or a Retry
	Reason   string    // of the last failure
}

// Parked yields the parked members in the order of their next try. Members that are parked or
// tried meanwhile may be missing or come twice. Errors: [millrace.ErrNotFound],
// [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Ick) Parked(ctx context.Context) iter.Seq2[Parked, error] {
	return func(yield func(Parked, error) bool) {
		for first, more := 0, true; more; {
			var page []Parked
			var err error
			if page, more, err = k.parkedPage(ctx, first); err != nil {
				yield(Parked{}, err)
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			first += len(page)
		}
	}
}

// parkedPage returns a page, and whether there is another one.
func (k *Ick) parkedPage(ctx context.Context, first int) (page []Parked, more bool, err error) {
	r, err := k.call(ctx, "parked", strconv.Itoa(first), strconv.Itoa(chunk))
	if err != nil {
		return nil, false, err
	}
	if exists := r.Bool(); !exists && r.Err() == nil {
		return nil, false, errNotFound
	}
	more = r.Bool()
	for r.More() {
		p, err := readParked(r)
		if err != nil {
			return nil, false, err
		}
		page = append(page, p)
	}
	return page, more, r.Err()
}

func readParked(r *script.Reply) (Parked, error) {
	p := Parked{Entry: Entry{Member: r.Text()}}
	if until := readScore(r); !math.IsInf(until, 1) {
		p.Until = time.UnixMilli(int64(until))
	}
	failure := strings.SplitN(r.Text(), " ", 4)
	if r.Err() != nil {
		return p, r.Err()
	}
	if len(failure) < 4 {
		return p, millrace.ErrBroken.Errorf("the record of the parked member %q is incomplete: %q", p.Member, failure)
	}
	var errs [3]error
	var at int64
	p.Attempts, errs[0] = strconv.Atoi(failure[0])
	p.Score, errs[1] = strconv.ParseFloat(failure[1], 64)
	at, errs[2] = strconv.ParseInt(failure[2], 10, 64)
	p.At, p.Reason = time.UnixMilli(at), failure[3]
	return p, errors.Join(errs[:]...)
}

// Retry moves parked members back to the waiting ones, with their scores and attempts. It returns
// how many of them were parked.
func (k *Ick) Retry(ctx context.Context, members ...string) (int, error) {
	return k.unpark(ctx, "retry", members)
}

// Drop removes parked members; other marks of them stay. It returns how many of them were parked.
func (k *Ick) Drop(ctx context.Context, members ...string) (int, error) {
	return k.unpark(ctx, "drop", members)
}

func (k *Ick) unpark(ctx context.Context, how string, members []string) (int, error) {
	var sum int
	for part := range script.Chunks(members, chunk, func(m string) int { return len(m) }) {
		n, err := k.unparkChunk(ctx, how, part)
		if err != nil {
			return sum, err
		}
		sum += n
	}
	return sum, nil
}

func (k *Ick) unparkChunk(ctx context.Context, how string, members []string) (int, error) {
	reply, err := k.call(ctx, "unpark", append([]string{how}, members...)...)
	if err != nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}
