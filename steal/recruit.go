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

	// breakAfter is how many aborts in a row open the breaker.
	breakAfter = 5

	// The breaker's first pause and its longest; it doubles in between.
	breakFirst = time.Second
	breakMost  = 30 * time.Second

	// reportEvery is how often a job's failures of one kind are logged.
	reportEvery = 10 * time.Second
)

// errExited is the failure of a slice that called runtime.Goexit.
var errExited = errors.New("the slice ended its goroutine")

// admit takes a slot for a run of j. When there is none, that is the recruit's
// end and admit settles it. After Close, or for a caller whose context has
// ended, nothing happens.
func (r *Recruiter) admit(ctx context.Context, j *job, via Via) bool {
	if ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	if r.closed || j.removed {
		r.mu.Unlock()
		return false
	}
	now := time.Now()
	end := Recruited{Job: j.Name, Via: via}
	switch {
	case now.Before(j.breaker.until):
		end.Outcome = Broken
	case j.running >= r.cfg.PerJob || r.running >= r.cfg.PerProcess:
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
	r.tell(ctx, end)
	return false
}

// work runs slices of j in the slot that admit took, and gives it back.
func (r *Recruiter) work(ctx context.Context, j *job, via Via) {
	end := Recruited{Job: j.Name, Via: via, Outcome: Panicked, Err: errExited}
	began := time.Now()
	defer func() {
		end.Took = time.Since(began)
		r.settle(ctx, j, end)
	}()
	within, cancel := context.WithTimeout(context.WithValue(ctx, r, new(moment)), r.cfg.Budget)
	defer cancel()
	end.Outcome, end.Rounds, end.Err = rounds(within, j.Slice)
}

// rounds runs slices while they come back full and there is time.
func rounds(ctx context.Context, slice func(context.Context) (millrace.Progress, error)) (Outcome, int, error) {
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
		case err != nil && n > 1:
			// The rounds before had enough to do to use up the time.
			return Worked, n, nil
		case err != nil:
			return TimedOut, n, err
		case progress == millrace.Idle && n == 1:
			return Idle, n, nil
		case progress != millrace.Full || n == maxRounds || ctx.Err() != nil:
			return Worked, n, nil //nolint:nilerr // that time is up ends the rounds, and is no failure
		}
	}
}

// settle counts and reports how a run ended, and then gives its slot back.
func (r *Recruiter) settle(ctx context.Context, j *job, end Recruited) {
	defer r.leave(j)
	if silent, speak := r.note(ctx, j, end); speak {
		r.cfg.Logger.WarnContext(ctx, "a slice of upkeep failed",
			"job", end.Job, "reason", end.Outcome.String(), "error", end.Err, "unreported", silent)
	}
	r.tell(ctx, end)
}

// note counts how a run ended. It reports whether that is to be logged, and how
// many like it were not.
func (r *Recruiter) note(ctx context.Context, j *job, end Recruited) (silent int, speak bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	j.stats.count(end, now)
	// That a caller's own time was over says nothing about the job.
	if end.Outcome != TimedOut || ctx.Err() == nil {
		j.breaker.note(end.Outcome, now)
	}
	if !end.Outcome.failed() {
		return 0, false
	}
	return j.voice.raise(end.Outcome, now)
}

// leave gives a slot back.
func (r *Recruiter) leave(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.running--
	r.running--
	r.drain()
}

// tell tells the hooks. One that panics harms neither the caller nor the other hooks.
func (r *Recruiter) tell(ctx context.Context, end Recruited) {
	for _, hook := range r.cfg.Hooks {
		watcher, ok := hook.(RecruitHook)
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
		silent, speak := r.voice.raise(Panicked, time.Now())
		r.mu.Unlock()
		if speak {
			r.cfg.Logger.ErrorContext(ctx, "a hook panicked", "job", end.Job, "error", err, "unreported", silent)
		}
	}
}

// breaker keeps a job that fails from being run at the full rate.
type breaker struct {
	failures int       // in a row
	until    time.Time // no slice runs before that
}

// note learns from a slice that ran.
func (b *breaker) note(end Outcome, now time.Time) {
	if !end.failed() {
		*b = breaker{}
		return
	}
	b.failures++
	if more := b.failures - breakAfter; more >= 0 {
		b.until = now.Add(min(breakFirst<<min(more, 5), breakMost))
	}
}

// voice remembers when a job's failures were logged, each kind for itself, so
// that a panic is not hidden behind errors.
type voice struct {
	spoke  [outcomes]time.Time
	silent [outcomes]int
}

// raise reports whether a failure is to be logged now, and how many of its kind
// were not since the last one that was.
func (v *voice) raise(end Outcome, now time.Time) (silent int, speak bool) {
	if spoke := v.spoke[end]; !spoke.IsZero() && now.Sub(spoke) < reportEvery {
		v.silent[end]++
		return 0, false
	}
	silent = v.silent[end]
	v.spoke[end], v.silent[end] = now, 0
	return silent, true
}
