package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/script"
)

// periods divides time: it returns the end of the period that contains now.
type periods func(now time.Time) (end time.Time)

// Every divides time into periods of that length, which must be above zero. Midnight UTC begins
// one if they divide a day. A week begins on Monday.
func Every(length time.Duration) func(now time.Time) (end time.Time) {
	return func(now time.Time) time.Time {
		if length <= 0 {
			return now // refused by Once
		}
		return now.UTC().Truncate(length).Add(length) // the zero time, from which it counts, is a Monday
	}
}

// donePrefix begins the metadata of a lease that records a success of Once.
const donePrefix = "done, began "

// Once runs fn unless a call of Once with that name, in any process, has succeeded in the present
// period. It is for work that each of several replicas starts and one must do, such as a nightly
// report. The clock of the server decides which period it is.
//
// divide returns the end of the period that contains now, which is after now and at most 366 days
// later. It must not depend on anything but now, so that all processes agree. [Every] returns such a
// function, and the method Next of a schedule.Spec is one: for days of a zone, or from three o'clock on.
//
// Without an error the work of the period is done: ran says whether by this call. While another
// call runs fn, Once does not wait: it returns false and [ErrHeld]. When fn
// fails, its process dies, or the lease is lost, the period has no success yet, and the next call
// of any process runs fn again. So call Once often, for instance each minute in each replica: a
// call costs one request to Redis. Near the end of a period a caller whose clock is ahead is still
// in the period that is done. Callers that call only once in a period should do so well inside it.
//
// fn runs under a lease of that name with that ttl, as with [Locker.Do]. The lease is renewed until
// the end of the next period, and at least for an hour, so that fn may take a whole period whenever it
// began; or for [Config.MaxHold] if that is set. To end fn earlier, give ctx a deadline. A success turns
// the lease into a record of it until the end of the period in which it began: the lease stays held,
// and [Locker.Show] returns metadata that begins with "done". A release with the token of the record
// lets the work be done again. The name must not be used with other calls of this package.
//
// A run that began in one period and ended in the next counts for the first.
//
// Errors with ran: fn's; [ErrLost] if the lease ended before fn did, so that another process may run
// fn, or have run it; another error if fn succeeded and that could not be stored, so that the period
// may get a second success. Errors without ran: those of [Locker.Acquire].
func (l *Locker) Once(
	ctx context.Context, name string, ttl time.Duration,
	divide func(now time.Time) (end time.Time), fn func(ctx context.Context, fence int64) error,
) (ran bool, err error) {
	if divide == nil {
		return false, millrace.ErrBadArgument.Errorf("there is no period: pass lease.Every, or Next of a schedule.Spec")
	}
	period := periods(divide)
	if _, err := period.end(time.Now()); err != nil {
		return false, err
	}
	lease, err := l.Acquire(ctx, name, ttl, AcquireConfig{})
	if held, ok := Holder(err); ok && strings.HasPrefix(held.Metadata, donePrefix) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	succeeded := false
	defer func() { // also when fn panics
		if !succeeded {
			err = lease.end(ctx, err)
		}
	}()
	end, err := period.end(lease.acquired)
	if err != nil {
		return false, err
	}
	lease.renew(ttl, time.Now().Add(l.holdOnce(period, lease.acquired, end)))
	if err := lease.call(ctx, fn); err != nil {
		return true, err
	}
	succeeded = true
	return true, lease.done(ctx, end, period.length(end))
}

// end returns the end of the period that contains now, or an error if there is none.
func (p periods) end(now time.Time) (time.Time, error) {
	end := p(now)
	if left := end.Sub(now); left <= 0 || left > names.MaxLeaseTTL {
		return end, millrace.ErrBadArgument.Errorf("the period of %s ends at %s: it must end later, by at most %s",
			now.Format(time.RFC3339), end.Format(time.RFC3339), names.MaxLeaseTTL)
	}
	return end, nil
}

// length returns the length of the period that begins then, or the longest if there is none.
func (p periods) length(begin time.Time) time.Duration {
	end, err := p.end(begin)
	if err != nil {
		return names.MaxLeaseTTL
	}
	return max(end.Sub(begin), time.Millisecond)
}

// done turns the lease into a record until that time, of periods of that length. It tries for as long
// as the lease lasts, and at most for a second after ctx has ended. It does not release the lease after
// an error: the record may have been stored.
func (l *Lease) done(ctx context.Context, until time.Time, length time.Duration) error {
	l.stop()
	within, cancel := script.Within(context.WithoutCancel(ctx), max(time.Until(l.Deadline()), releaseTimeout))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(releaseTimeout, cancel)
		context.AfterFunc(within, func() { timer.Stop() })
	})()
	reply, err := l.locker.run.Run(within, "done", baseKey(l.Name), l.Token,
		strconv.FormatInt(until.UnixMilli(), 10), donePrefix+l.acquired.UTC().Format(time.RFC3339), millis(length))
	if err != nil {
		return fmt.Errorf("fn succeeded, and the success could not be stored: %w", err)
	}
	const lost, recorded = 0, 1
	switch outcome := reply.Int(); {
	case reply.Err() != nil:
		return reply.Err()
	case outcome == lost:
		return ErrLost
	case outcome == recorded:
		l.locker.index.Enter(l.Name, l.acquired) // the reaper removes the record after its end
		return nil
	}
	if err := l.Release(ctx); err != nil && !errors.Is(err, ErrLost) { // the period is over
		return err
	}
	return nil
}

// holdOnce returns for how long Once renews a lease: at least a whole period.
func (l *Locker) holdOnce(period periods, began, end time.Time) time.Duration {
	if l.cfg.MaxHold > 0 {
		return l.cfg.MaxHold
	}
	if next, err := period.end(end); err == nil {
		end = next
	}
	return max(l.hold, end.Sub(began))
}
