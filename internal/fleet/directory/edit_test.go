package directory

import (
	"errors"
	"testing"
)

// TestEdit: an edit sees the change of a faster process, keeps it, and stops at an error.
func TestEdit(t *testing.T) {
	t.Parallel()
	d, _ := start(t)
	change(t, d, 0, sample(t, 1))
	calls := 0
	var parent ID
	m, err := Edit(t.Context(), d, func(next *Map) (bool, error) {
		if calls++; calls == 1 {
			other := sample(t, 2)
			other.Settings.MaxTags = 7
			change(t, d, 1, other)
			parent = other.ID()
		}
		next.Settings.MaxFill = 60
		return true, nil
	})
	wantMap(t, "Edit", m, err, func() *Map {
		m := sample(t, 3)
		m.Settings.MaxTags, m.Settings.MaxFill, m.Parent = 7, 60, parent
		return m
	}())
	if calls != 2 {
		t.Errorf("the edit was called %d times, want it repeated once", calls)
	}
	now, err := d.Confirm(t.Context(), 0)
	wantMap(t, "the map", now, err, m)

	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		if m, err = Edit(t.Context(), d, func(*Map) (bool, error) { return false, want }); !errors.Is(err, want) || m.Epoch != 3 {
			t.Errorf("an edit that changes nothing returns epoch %d, %v, want 3, %v", m.Epoch, err, want)
		}
	}
}
