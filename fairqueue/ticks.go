package fairqueue

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/schedule"
)

const (
	// missedAfter is how late a tick is, beyond the most jitter, when it counts as missed.
	missedAfter = time.Minute

	// maxFire is how many ticks of one schedule one call writes.
	maxFire = 20

	// maxWalk is how many ticks are looked at in one step.
	maxWalk = 10_000

	// refusedPause is after how long a tick that was refused is tried again.
	refusedPause = 5 * time.Second

	// unknownPause is for how long a process that cannot read a schedule leaves it to others.
	unknownPause = time.Second
)

// jitter returns by how much a tick is delayed: less than most, and the same for all processes.
func jitter(name string, tick time.Time, most time.Duration) time.Duration {
	if most < time.Millisecond {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name + " " + strconv.FormatInt(tick.Unix(), 10))) // never fails
	return time.Duration(sum.Sum64()%uint64(most.Milliseconds())) * time.Millisecond
}

// plan is one step's decision about the due ticks of a schedule.
type plan struct {
	fire   []time.Time // ticks with a message, in order
	missed int64       // ticks without one
	next   time.Time   // the next tick
}

// planTicks walks the ticks of a schedule from next on, up to those that are not due. It depends
// on its arguments only, so that it does not matter which process does it.
func planTicks(s Schedule, next, now time.Time) (p plan) {
	var late time.Time // the last missed tick
	tick := next
	for range maxWalk {
		due := tick.Add(jitter(s.Name, tick, s.Jitter))
		if tick.IsZero() || due.After(now) || len(p.fire) == maxFire {
			break
		}
		if now.Sub(tick) > missedAfter+s.Jitter && s.Missed != schedule.All {
			p.missed++
			late = tick
		} else {
			if len(p.fire) == 0 && !late.IsZero() && s.Missed != schedule.Skip {
				p.fire = append(p.fire, late)
				p.missed--
			}
			p.fire = append(p.fire, tick)
		}
		tick = s.Spec.Next(tick)
	}
	p.next = tick
	if len(p.fire) > 0 || late.IsZero() || s.Missed == schedule.Skip {
		return p
	}
	p.missed--
	if due := tick.Add(jitter(s.Name, tick, s.Jitter)); !tick.IsZero() && !due.After(now) {
		p.next = late // the walk was too long: the next step begins with the last missed one
	} else {
		p.fire = []time.Time{late}
	}
	return p
}

// nextTick returns where the plan of a schedule begins: at its next tick, unless that was planned while the server's clock
// was ahead. A clock that went back by less than a minute repeats no tick; after a larger step the schedule ticks on by
// the clock.
func nextTick(s Schedule, p progress, now time.Time) time.Time {
	if ahead := p.last.Sub(now); ahead > 0 && ahead <= missedAfter {
		now = p.last
	}
	if next := s.Spec.Next(now); !next.IsZero() && next.Before(p.next) {
		return next
	}
	return p.next
}

// never is when a schedule ticks that has no more ticks.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// keepSchedules writes the messages of ticks that are due, of up to 20 schedules. Any process
// may do it at any time: a tick is written only if the schedule is still as this process saw it.
func (q *Queue) keepSchedules(ctx context.Context) error {
	now, entries, err := q.dueSchedules(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.paused { // meanwhile
			continue
		}
		if err := q.keepSchedule(ctx, now, e); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) keepSchedule(ctx context.Context, now time.Time, e scheduleEntry) error {
	later := func(pause time.Duration, trouble string) error {
		e.progress = readProgress(e.state)
		e.trouble = trouble
		_, err := q.reschedule(ctx, &e, strconv.FormatInt(now.Add(pause).UnixMilli(), 10), "")
		return err
	}
	s, err := e.schedule()
	if err != nil {
		if q.shared.warn(e.name) {
			q.cfg.Logger.WarnContext(ctx, "this process cannot keep a schedule, and leaves it to others", "queue", q.name,
				"schedule", e.name, "error", err)
		}
		return later(unknownPause, e.trouble)
	}
	p := planTicks(s, nextTick(s, e.progress, now), now)
	if p.next.IsZero() {
		p.next = never
	}
	request, err := q.tickWrites(ctx, s, e, p)
	if err != nil {
		return later(refusedPause, code(err))
	}
	if len(request.drafts) == 0 {
		e.next, e.missed = p.next, e.missed+p.missed
		_, err := q.reschedule(ctx, &e, e.due(), "")
		return err
	}
	var refused error
	err = q.observe(ctx, "write", func(ctx context.Context) error {
		answers, err := q.shared.write(ctx, []writeRequest{request})
		if err == nil {
			refused = answers[0].refused
		}
		return err
	})
	switch {
	case errors.Is(err, errStreams):
		return nil // the next call knows them
	case refused != nil || errors.Is(err, millrace.ErrFull):
		return later(refusedPause, code(errors.Join(refused, err)))
	}
	return err
}

// tickWrites returns the writes of the ticks of a plan. Each is written only in the state that
// the one before leaves.
func (q *Queue) tickWrites(ctx context.Context, s Schedule, e scheduleEntry, p plan) (r writeRequest, err error) {
	r.q = q
	was := e.state
	for i, tick := range p.fire {
		e.next = p.next
		if i+1 < len(p.fire) {
			e.next = p.fire[i+1]
		}
		if i == 0 {
			e.missed += p.missed
		}
		e.last, e.lastID, e.ticks, e.trouble = tick, "?", e.ticks+1, ""
		becomes := e.String()
		d := s.message(tick)
		d.Headers = q.carried(ctx, d.Headers)
		body, err := d.encode(q.cfg.Gzip)
		if err != nil {
			return r, err
		}
		name := "!" + e.due() + "\x01" + was + "\x01" + becomes + "\x01" + s.Name
		one := encoded{tenant: d.Tenant, body: body, options: strconv.Itoa(4-d.Priority) + " 0 " + millis(d.TTL) + " " + strconv.Itoa(max(1, d.Cost)) + " 0 " + name}
		if i > 0 && r.bytes+one.bytes() > maxMessage {
			break // the state of the last one says which tick is next
		}
		r.drafts, r.bytes = append(r.drafts, one), r.bytes+one.bytes()
		was = becomes
	}
	return r, nil
}

// code is the code of an error, for people.
func code(err error) string {
	if e, ok := errors.AsType[*millrace.Error](retry.Bare(err)); ok {
		return e.Code
	}
	return "error"
}
