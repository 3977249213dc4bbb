package batch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
)

// TestWhoLeavesACallInFlight: the error of a caller that leaves is uncertain if its request is on
// its way and may change something.
func TestWhoLeavesACallInFlight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                            string
		changes, waits, sent, uncertain bool
	}{
		{"a change on its way", true, false, true, true},
		{"a change that finds no connection", true, false, false, false},
		{"a change that waits", true, true, true, false},
		{"a read on its way", false, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &caller{hold: make(chan struct{})}
				call := func(ctx context.Context, requests []int) ([]int, error) {
					retry.EffectOf(ctx).Note(tt.sent)
					return c.call(ctx, requests)
				}
				b := New(Config[int, int]{Call: call, Changes: func(int) bool { return tt.changes }})
				var before func()
				if tt.waits {
					before = start(t, b, t.Context(), 1)
				}
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := b.Do(ctx, 2)
					left <- err
				}()
				synctest.Wait()
				cancel()
				err := <-left
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error = %v, want %v", err, context.Canceled)
				}
				if got := errors.Is(err, millrace.ErrUncertain); got != tt.uncertain {
					t.Errorf("error = %v: uncertain %v, want %v", err, got, tt.uncertain)
				}
				close(c.hold)
				if before != nil {
					before()
				}
				b.Wait()
			})
		})
	}
}
