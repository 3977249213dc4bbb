package steal

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
)

const (
	// maxRounds is how many slices a recruit runs while they come back full.
	maxRounds = 20

	// breakAfter is how many failures in a row open the breaker.
	breakAfter = 5

	// The breaker's first and longest pause; it doubles in between.
	breakFirst = time.Second
	breakMost  = 30 * time.Second

	// hangFactor is after how many budgets a run hangs. One that ends with its context ends
	// before.
	hangFactor = 2

	// reportEvery is how often failures of one kind are logged for a job.
	reportEvery = 10 * time.Second
)

// errExited is the failure of a slice that called runtime.Goexit.
var errExited = errors.New("the slice ended its goroutine")

// admit takes a slot for a run of j. If there is none, it counts the recruit as ended.
// After Close, or if ctx has ended, it does nothing.
func (r *Recruiter) admit(ctx context.Context, j *job, floor bool) bool {
	if ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	if r.closed || j.removed {
		r.mu.Unlock()
		return false
	}
	now := time.Now()
	end := millrace.Recruited{Job: j.Name, Floor: floor}
	switch {
	case now.Before(j.breaker.until):
		end.Outcome = Broken
	case j.running >= r.cfg.PerJob || r.running-r.hanging >= r.cfg.PerProcess:
		end.Outcome = Busy
	default:
		j.running++
		r.running++
		j.ran = now
		r.mu.Unlock()
		return true
	}
	j.stats.count(end, now)
	r.mu.Unlock()
	r.notify(ctx, end)
	return false
}

// floor runs slices of j in the slot that admit took, in a goroutine of its own, and waits until
// they end or hang.
func (r *Recruiter) floor(ctx context.Context, j *job) {
	done, hangs := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.work(ctx, j, hangs)
	}()
	select {
	case <-done:
	case <-hangs:
	}
}

// work runs slices of j in the slot that admit took, and releases it. A run of the floor has a
// channel, which is closed if it hangs; one that an enlistment drew has none.
func (r *Recruiter) work(ctx context.Context, j *job, hangs chan<- struct{}) {
	end := millrace.Recruited{Job: j.Name, Floor: hangs != nil, Outcome: Panicked, Err: errExited}
	began, run := time.Now(), &run{}
	watch := time.AfterFunc(hangFactor*r.cfg.Budget, func() {
		r.hang(j, run)
		if hangs != nil {
			close(hangs)
		}
	})
	defer func() { // also after runtime.Goexit
		watch.Stop()
		end.Took = time.Since(began)
		r.finish(ctx, j, run, end)
	}()
	within, cancel := context.WithTimeout(context.WithValue(ctx, r, new(moment)), r.cfg.Budget)
	defer cancel()
	end.Outcome, end.Rounds, end.Err = rounds(within, j.Slice)
}

// run is the state of slices under way. The recruiter's mu guards it.
type run struct{ hanging, ended bool }

// hang takes the slot of a run that does not end from those of the process, so that it stops no
// other job. It keeps that of its job.
func (r *Recruiter) hang(j *job, run *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !run.ended {
		run.hanging = true
		j.hanging++
		r.hanging++
	}
}

// rounds runs slices while they come back full and the budget lasts.
func rounds(ctx context.Context, slice func(context.Context) (millrace.Progress, error)) (string, int, error) {
	for n := 1; ; n++ {
		var progress millrace.Progress
		err := loop.Protect(func() (err error) {
			progress, err = slice(ctx)
			return err
		})
		switch {
		case errors.As(err, new(*loop.PanicError)):
			return Panicked, n, err
		case err != nil && ctx.Err() == nil:
			return Failed, n, err
		case err != nil && n > 1: // the rounds before worked until the budget was spent
			return Worked, n, nil
		case err != nil:
			return TimedOut, n, err
		case progress == millrace.Idle && n == 1:
			return Idle, n, nil
		case progress != millrace.More || n == maxRounds || ctx.Err() != nil:
			return Worked, n, nil //nolint:nilerr // the end of the budget ends the rounds, and is no failure
		}
	}
}

// finish counts and reports the end of a run, and then releases its slot.
func (r *Recruiter) finish(ctx context.Context, j *job, run *run, end millrace.Recruited) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		run.ended = true
		j.running--
		r.running--
		if run.hanging {
			j.hanging--
			r.hanging--
		}
		r.checkDrained()
	}()
	r.mu.Lock()
	now := time.Now()
	j.stats.count(end, now)
	if end.Outcome != TimedOut || ctx.Err() == nil { // the end of the caller's own time says nothing about the job
		j.breaker.record(end.Outcome, now)
	}
	suppressed, report := 0, false
	if ranAndFailed(end.Outcome) {
		if j.logged[end.Outcome] == nil {
			j.logged[end.Outcome] = &logLimiter{}
		}
		suppressed, report = j.logged[end.Outcome].allow(now)
	}
	r.mu.Unlock()
	if report {
		r.cfg.Logger.WarnContext(ctx, "a slice of upkeep failed",
			"job", end.Job, "reason", end.Outcome, "error", end.Err, "unreported", suppressed)
	}
	r.notify(ctx, end)
}

// notify calls the hooks. A hook that panics affects neither the caller nor other hooks.
func (r *Recruiter) notify(ctx context.Context, end millrace.Recruited) {
	for _, hook := range r.cfg.Hooks {
		watcher, ok := hook.(millrace.RecruitHook)
		if !ok {
			continue
		}
		err := loop.Protect(func() error {
			watcher.OnRecruit(ctx, end)
			return nil
		})
		if err == nil {
			continue
		}
		r.mu.Lock()
		suppressed, report := r.panics.allow(time.Now())
		r.mu.Unlock()
		if report {
			r.cfg.Logger.ErrorContext(ctx, "a hook panicked", "job", end.Job, "error", err, "unreported", suppressed)
		}
	}
}

type breaker struct {
	failures int       // in a row
	until    time.Time // no slice runs before
}

func (b *breaker) record(end string, now time.Time) {
	if !ranAndFailed(end) {
		*b = breaker{}
		return
	}
	b.failures++
	if more := b.failures - breakAfter; more >= 0 {
		b.until = now.Add(min(breakFirst<<min(more, 5), breakMost))
	}
}

// logLimiter lets one message through every reportEvery.
type logLimiter struct {
	last       time.Time
	suppressed int
}

// allow reports whether to log now, and how many messages were suppressed before.
func (l *logLimiter) allow(now time.Time) (suppressed int, ok bool) {
	if !l.last.IsZero() && now.Sub(l.last) < reportEvery {
		l.suppressed++
		return 0, false
	}
	suppressed = l.suppressed
	*l = logLimiter{last: now}
	return suppressed, true
}
