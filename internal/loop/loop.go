package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// reportEvery is how often a trouble that goes on is logged again.
const reportEvery = 10 * time.Second

// Config is what a loop runs.
type Config struct {
	// Step does one round of work and reports whether there was any.
	Step func(ctx context.Context) (worked bool, err error)

	// Wait is called after a round without work and returns when it is worth
	// looking again. Its errors are backed off from like those of Step.
	Wait func(ctx context.Context) error

	// Permanent reports whether an error ends the loop. Defaults to never.
	Permanent func(error) bool

	// Backoff says how long to wait after so many failed rounds in a row.
	Backoff func(failures int) time.Duration

	// Logger is told when trouble begins, every 10 s while it lasts, and when
	// it is over. Defaults to discarding.
	Logger *slog.Logger
}

// Run goes round until ctx ends, and returns its cause, or until an error is
// permanent, and returns that.
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
				log.InfoContext(ctx, "trouble is over", "failures", failures)
			}
			failures = 0
		case cfg.Permanent != nil && cfg.Permanent(err):
			return err
		default:
			failures++
			if failures == 1 || time.Since(reported) >= reportEvery {
				reported = time.Now()
				log.WarnContext(ctx, "round failed, backing off", "error", err, "failures", failures)
			}
			select {
			case <-ctx.Done():
			case <-time.After(cfg.Backoff(failures)):
			}
		}
	}
	return context.Cause(ctx)
}

// PanicError is a panic that was caught.
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
