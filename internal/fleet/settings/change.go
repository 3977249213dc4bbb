package settings

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Config says how to change settings. The zero value works.
type Config struct {
	// Option has the user, the password, the TLS settings and the timeouts for members.
	// Defaults to none of them.
	Option rueidis.ClientOption

	// Progress receives each step, in a few words, from one goroutine. Defaults to none.
	Progress func(step string)
}

func (c *Config) report(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Change lets edit change the settings of a fleet, and returns the map that has them. It
// takes a few seconds, and longer in the cases that the package names. The same call again
// completes one that was cut off; a call that edits back what is being changed takes that
// back at once. If another change has begun, it is completed first.
func Change(ctx context.Context, dir directory.Directory, edit func(s *directory.Settings), cfg Config) (*directory.Map, error) {
	for {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return nil, directory.Unreachable(ctx, err)
		}
		if m.Next != nil {
			wanted, err := edited(m.Next.Settings, edit)
			if err != nil {
				return nil, err
			}
			if wanted == m.Settings && wanted != m.Next.Settings {
				if m, err = replace(ctx, dir, m, func(next *directory.Map) { next.Next = nil }); !errors.Is(err, directory.ErrConflict) {
					return m, err
				}
				continue
			}
			if m, err = cfg.complete(ctx, dir, m.Next.Since); err != nil || wanted == m.Settings {
				return m, err
			}
			continue
		}
		wanted, err := edited(m.Settings, edit)
		if err != nil || wanted == m.Settings {
			return m, err
		}
		m, err = replace(ctx, dir, m, func(next *directory.Map) {
			next.Next = &directory.Next{Since: next.Epoch, Settings: wanted}
		})
		switch {
		case errors.Is(err, directory.ErrConflict):
		case err != nil:
			return nil, err
		default:
			return cfg.complete(ctx, dir, m.Next.Since)
		}
	}
}

func edited(s directory.Settings, edit func(s *directory.Settings)) (directory.Settings, error) {
	edit(&s)
	return s, s.Check()
}

// replace publishes the map after m, with a change.
func replace(ctx context.Context, dir directory.Directory, m *directory.Map, change func(next *directory.Map)) (*directory.Map, error) {
	next := m.Clone()
	next.Epoch++
	change(next)
	return next, dir.Change(ctx, m.Epoch, next)
}

// pending returns the present map, and the change that was announced then unless it is
// complete or was taken back.
func pending(ctx context.Context, dir directory.Directory, since int64) (*directory.Map, *directory.Next, error) {
	m, err := dir.Confirm(ctx, 0)
	if err != nil {
		return nil, nil, directory.Unreachable(ctx, err)
	}
	if m.Next == nil || m.Next.Since != since {
		return m, nil, nil
	}
	return m, m.Next, nil
}

// complete waits until nothing depends on the present settings alone, and replaces them by
// the next ones. Another process may do the same at the same time.
func (c *Config) complete(ctx context.Context, dir directory.Directory, since int64) (*directory.Map, error) {
	m, next, err := pending(ctx, dir, since)
	if err != nil || next == nil {
		return m, err
	}
	present, later := m.Settings.Effective(), next.Settings.Effective()
	wait := m.Grace()
	if later.PlacementTTL < present.PlacementTTL || later.ReplyTimeout > present.ReplyTimeout {
		wait += present.PlacementTTL * 11 / 10
	}
	c.report("waiting %v until no client uses the former map", wait)
	if err := directory.Drain(ctx, dir, wait); err != nil {
		return nil, err
	}
	copies := later.Confirmed > max(1, present.Confirmed)
	if copies {
		c.report("waiting until %d replicas of each partition have all that was written", later.Confirmed)
	}
	for secured := (*directory.Map)(nil); ; {
		m, next, err := pending(ctx, dir, since)
		if err != nil || next == nil {
			return m, err
		}
		if copies && (secured == nil || !sameMembers(secured, m)) {
			if secured, err = c.secure(ctx, dir, since); err != nil {
				return nil, err
			}
			continue
		}
		m, err = replace(ctx, dir, m, func(m *directory.Map) { m.Settings, m.Next = next.Settings, nil })
		if !errors.Is(err, directory.ErrConflict) {
			return m, err
		}
	}
}
