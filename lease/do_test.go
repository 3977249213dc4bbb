package lease

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestDoWithoutWaiting(t *testing.T) {
	t.Parallel()
	l, other := open(t, Config{}), open(t, Config{})
	name := redistest.Name(t)
	ran, err := l.Do(t.Context(), name, long, AcquireConfig{}, func(ctx context.Context, fence int64) error {
		ran, err := other.Do(ctx, name, long, AcquireConfig{}, func(context.Context, int64) error {
			t.Error("two run at once")
			return nil
		})
		held, ok := Holder(err)
		if ran || !ok || held.Fence != fence {
			t.Errorf("Do of a held lease = %v, %v, want the holder with fence %d", ran, err, fence)
		}
		return nil
	})
	if !ran || err != nil {
		t.Errorf("Do = %v, %v", ran, err)
	}
	odd := errors.New("odd")
	ran, err = other.Do(t.Context(), name, long, AcquireConfig{}, func(context.Context, int64) error { return odd })
	if !ran {
		t.Error("Do of a free lease has not run")
	}
	wantError(t, err, odd)
	ran, err = l.Do(t.Context(), name, long, AcquireConfig{}, func(context.Context, int64) error {
		pass(t, l, name)
		return nil
	})
	if !ran {
		t.Error("Do that lost its lease says that it has not run")
	}
	wantError(t, err, ErrLost)
	ran, err = l.Do(t.Context(), "", long, AcquireConfig{}, nil)
	if ran {
		t.Error("Do of a bad name says that it has run")
	}
	wantError(t, err, millrace.ErrBadName)
}
