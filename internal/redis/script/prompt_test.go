package script_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/redis/script"
)

// TestDetachedCallsStayInTheirGoroutine: Prompt returns when the call does, with the cause
// of the context's end.
func TestDetachedCallsStayInTheirGoroutine(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(script.Detached(t.Context()))
	done := false
	_, err := script.Prompt(ctx, func(ctx context.Context) (int, error) {
		cancel(why)
		done = true // a race if it were another goroutine
		return 0, ctx.Err()
	})
	if !done || !errors.Is(err, why) {
		t.Errorf("done = %v, error %v", done, err)
	}
}
