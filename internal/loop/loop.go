package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/millrace/millrace"
)

// reportEvery is how often repeated failures are logged.
const reportEvery = 10 * time.Second

// Config configures a loop.
type Config struct {
	// Step does one round of work and reports whether there was any.
	Step func(ctx context.Context) (worked bool, err error)

	// Wait is called after a round without work, and returns when there may be some. After
	// an error the loop backs off, as after one of Step.
	Wait func(ctx context.Context) error

	// Permanent reports whether an error ends the loop. Defaults to never.
	Permanent func(error) bool

	// Backoff returns the pause after so many failed rounds in a row.
	Backoff func(failures int) time.Duration

	// Logger reports the first failure, one every 10 s while rounds fail, and the end of the
	// failures. Defaults to none.
	Logger *slog.Logger
}

// Run runs rounds until ctx ends, and returns its cause, or until an error is permanent, and
// returns that.
func Run(ctx context.Context, cfg Config) error {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var failures int
	var reported time.Time
	for ctx.Err() == nil {
		worked, err := cfg.Step(ctx)
		if err == nil && !worked {
			err = cfg.Wait(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			if failures > 0 {
				log.InfoContext(ctx, "rounds succeed again", "failures", failures)
			}
			failures = 0
		case cfg.Permanent != nil && cfg.Permanent(err):
			return err
		default:
			failures++
			if failures == 1 || time.Since(reported) >= reportEvery {
				reported = time.Now()
				log.WarnContext(ctx, "a round failed, backing off", "error", err, "failures", failures)
			}
			select {
			case <-ctx.Done():
			case <-time.After(cfg.Backoff(failures)):
			}
		}
	}
	return context.Cause(ctx)
}

// Handle runs a handler between the hooks and recovers its panics.
func Handle(ctx context.Context, hooks []millrace.Hook, work millrace.Handling, run func(context.Context) error) (err error) {
	for _, hook := range hooks {
		if h, ok := hook.(millrace.HandleHook); ok {
			var done func(error)
			if ctx, done = h.OnHandle(ctx, work); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	return Protect(func() error { return run(ctx) })
}

// PanicError is a recovered panic.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the panic's value and where it happened.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Protect calls fn and turns a panic in it into a [PanicError].
func Protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}
