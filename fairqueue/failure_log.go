package fairqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/loop"
)

const (
	// failureBurst is how many failures in a row are logged at once.
	failureBurst = 20

	// failureInterval is the time from one line to the next of a consumer whose handlers fail on and on: a night of
	// failures is 30,000 lines.
	failureInterval = time.Second
)

// failureLog logs failures of handlers, and counts those for which there are too many.
type failureLog struct {
	log *slog.Logger

	mu       sync.Mutex
	full     time.Time // when the burst can be spent whole again
	unlogged int       // failures since the last line
}

// failed logs that a handler failed. A handler that throttles its tenant did what it should.
func (l *failureLog) failed(ctx context.Context, m Message, err error) {
	if slower, ok := errors.AsType[throttleError](err); ok {
		l.log.DebugContext(ctx, "a handler throttles a tenant", "tenant", m.Tenant, "message", m.ID, "pause", slower.pause, "error", err)
		return
	}
	unlogged, ok := l.admit(time.Now())
	if !ok {
		return
	}
	level := slog.LevelWarn
	if _, ok := errors.AsType[*loop.PanicError](err); ok {
		level = slog.LevelError
	}
	attributes := []any{"tenant", m.Tenant, "message", m.ID, "attempt", m.Attempt, "error", err}
	if unlogged > 0 {
		attributes = append(attributes, "not_logged", unlogged)
	}
	l.log.Log(ctx, level, "a handler failed", attributes...)
}

// admit reports whether a failure is logged, and how many were not since the last one that was.
func (l *failureLog) admit(now time.Time) (unlogged int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > (failureBurst-1)*failureInterval {
		l.unlogged++
		return 0, false
	}
	l.full = l.full.Add(failureInterval)
	unlogged, l.unlogged = l.unlogged, 0
	return unlogged, true
}
