package millracetest

import (
	"testing"
	"time"

	"github.com/millrace/millrace/lease"
)

// WantHeld returns the lease of that name. If it is free, it reports an error.
func WantHeld(t testing.TB, l *lease.Locker, name string) lease.Info {
	t.Helper()
	info := show(t, l, name)
	if !info.Held {
		t.Errorf("the lease %q is free, want it held", name)
	}
	return info
}

// WantFree reports an error if the lease of that name is held, and says by which holder. A period
// of [lease.Locker.Once] that is done holds it, too.
func WantFree(t testing.TB, l *lease.Locker, name string) {
	t.Helper()
	if info := show(t, l, name); info.Held {
		holder := "a holder without metadata"
		if info.Metadata != "" {
			holder = info.Metadata
		}
		t.Errorf("the lease %q is held for another %s with fence %d (%s), want it free",
			name, info.Remaining.Round(time.Millisecond), info.Fence, holder)
	}
}

func show(t testing.TB, l *lease.Locker, name string) lease.Info {
	t.Helper()
	info, err := l.Show(t.Context(), name)
	if err != nil {
		t.Fatalf("the lease %q: %v", name, err)
	}
	return info
}
