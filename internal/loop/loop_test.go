package loop_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/redis/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errTrouble = errors.New("trouble")
	errEnd     = errors.New("the test is over")
)

func TestRunWaitsOnlyWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		work := []bool{true, true, false, true, false, false}
		var waits []int // the steps after which it waited
		step := 0
		err := loop.Run(ctx, loop.Config{
			Backoff: retry.Policy{}.Pause,
			Step: func(context.Context) (bool, error) {
				step++
				return work[step-1], nil
			},
			Wait: func(context.Context) error {
				if waits = append(waits, step); step == len(work) {
					cancel(errEnd)
				}
				return nil
			},
		})
		if !errors.Is(err, errEnd) {
			t.Errorf("Run = %v, want the cause of the end", err)
		}
		if len(waits) != 3 || waits[0] != 3 || waits[1] != 5 || waits[2] != 6 {
			t.Errorf("waited after steps %v, want 3, 5, 6", waits)
		}
	})
}

func TestRunOutlivesTroubleAndLogsSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var log bytes.Buffer
		start, steps := time.Now(), 0
		_ = loop.Run(ctx, loop.Config{
			Backoff: retry.Policy{}.Pause,
			Step: func(context.Context) (bool, error) {
				steps++
				if time.Since(start) < time.Minute {
					return false, errTrouble
				}
				return false, nil
			},
			Wait:   func(context.Context) error { cancel(errEnd); return nil },
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if steps < 100 || steps > 300 {
			t.Errorf("steps in a minute of trouble = %d, want pauses of at most half a second", steps)
		}
		if got := strings.Count(log.String(), "backing off"); got < 5 || got > 8 {
			t.Errorf("lines about a minute of trouble = %d, want one every ten seconds:\n%s", got, log.String())
		}
		if steps > 1 && !strings.Contains(log.String(), "trouble") {
			t.Errorf("the log does not say what the trouble was:\n%s", log.String())
		}
	})
}

func TestRunSaysWhenTroubleIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var log bytes.Buffer
		steps := 0
		_ = loop.Run(ctx, loop.Config{
			Backoff: retry.Policy{}.Pause,
			Step: func(context.Context) (bool, error) {
				if steps++; steps <= 3 {
					return false, errTrouble
				}
				if steps == 6 {
					cancel(errEnd)
				}
				return true, nil
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if got := strings.Count(log.String(), "rounds succeed again"); got != 1 {
			t.Errorf("the log reports the end of the failures %d times, want once:\n%s", got, log.String())
		}
	})
}

func TestRunEndsOnPermanentErrors(t *testing.T) {
	t.Parallel()
	err := loop.Run(t.Context(), loop.Config{
		Backoff:   retry.Policy{}.Pause,
		Step:      func(context.Context) (bool, error) { return false, nil },
		Wait:      func(context.Context) error { return errTrouble },
		Permanent: func(err error) bool { return errors.Is(err, errTrouble) },
	})
	if !errors.Is(err, errTrouble) {
		t.Errorf("Run = %v, want the permanent error", err)
	}
}

func TestProtect(t *testing.T) {
	t.Parallel()
	err := loop.Protect(func() error { panic("poison") })
	p, ok := errors.AsType[*loop.PanicError](err)
	if !ok || p.Value != "poison" || !strings.Contains(err.Error(), "TestProtect") {
		t.Errorf("Protect = %v, want the panic and where it was", err)
	}
	if err := loop.Protect(func() error { return errTrouble }); !errors.Is(err, errTrouble) {
		t.Errorf("Protect = %v, want the function's error", err)
	}
}
