package directory

import (
	"context"
	"errors"
)

// Edit changes the map, and returns the present one. Edit receives a copy of it with the next
// epoch, and reports whether it has changed it; it is called again when another process was
// faster.
func Edit(ctx context.Context, dir *Directory, edit func(next *Map) (changed bool, err error)) (*Map, error) {
	for {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return nil, Unreachable(ctx, err)
		}
		next := m.Next()
		changed, err := edit(next)
		if err != nil || !changed {
			return m, err
		}
		if err := dir.Change(ctx, m.Epoch, next); !errors.Is(err, ErrConflict) {
			return next, err
		}
	}
}
