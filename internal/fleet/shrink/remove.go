package shrink

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// ErrNeeded means that a partition cannot be removed. It was not changed.
var ErrNeeded = &millrace.Error{Code: "needed", Message: "the partition cannot be removed"}

// Config says how to remove a partition. The zero value works.
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

// Check returns ErrNeeded unless the partition can be removed.
func Check(ctx context.Context, f *fleet.Fleet, m *directory.Map, partition int) error {
	last := len(m.Partitions) - 1
	needed := func(hint, format string, args ...any) error {
		return ErrNeeded.Errorf(format, args...).WithHint(hint)
	}
	if partition < 0 || partition > last {
		return millrace.ErrBadArgument.Errorf("there is no partition %d: the fleet has %d, from 0 on", partition, last+1)
	}
	p := m.Partitions[partition]
	switch {
	case partition != last:
		return needed("Move the tags of that one away and remove it. Members of any partition can be moved to other machines.",
			"only the partition with the highest number can be removed, which is %d", last)
	case last == 0:
		return needed("", "partition 0 is the only one")
	case m.Removing() != nil:
		return nil // it has begun
	case m.Adding():
		return needed("Wait until that is done.", "partitions are being added")
	case p.Task != nil || p.Leaving != nil:
		return needed("Wait until that is done.", "members of partition %d are being changed", partition)
	case p.Phase != directory.Closed:
		return needed(fmt.Sprintf("Move its tags away first: millrace fleet rebalance --from %d --retire", partition), "partition %d takes new tags", partition)
	}
	c := f.Partitions()[partition]
	count, err := c.Do(ctx, c.B().Get().Key(members.TagsKey).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if count > 0 {
		return needed(fmt.Sprintf("Move them away first: millrace fleet rebalance --from %d --retire", partition), "partition %d has %d tags", partition, count)
	}
	return alien(ctx, f, partition)
}

// alien returns an error if the partition has keys that are not the fleet's own.
func alien(ctx context.Context, f *fleet.Fleet, partition int) error {
	for key, err := range script.Scan(ctx, f.Partitions()[partition], "*") {
		if err != nil {
			return err
		}
		if key == members.RestoredKey {
			return ErrNeeded.Errorf("what partition %d has lost is still being looked for", partition).WithHint("Agents do that: wait until it is done.")
		}
		if !strings.HasPrefix(key, members.Base) {
			return ErrNeeded.Errorf("partition %d has the key %q, which belongs to no tag there", partition, key).
				WithHint("Programs that write to partitions by their number, as package scatter does, must leave it first.")
		}
	}
	return nil
}

// Remove removes a partition from a fleet that is in use, and returns the new map. It must
// be the one with the highest number, closed and without tags; else the error is ErrNeeded.
// The same call again completes one that was cut off.
func Remove(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, partition int, cfg Config) (*directory.Map, error) {
	_, err := directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		if err := Check(ctx, f, next, partition); err != nil || next.Removing() != nil {
			return false, err
		}
		cfg.report("publishing that partition %d is to be removed", partition)
		enter(next, directory.Yielding)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return cfg.complete(ctx, f, dir, mover)
}

// enter puts the last partition into a phase.
func enter(next *directory.Map, phase directory.Phase) {
	p := &next.Partitions[len(next.Partitions)-1]
	p.Phase = phase
	if phase == directory.Removed {
		next.Points, p.Epoch = next.Points.Without(p.ID), next.Epoch
	}
}

// complete takes the steps that are left. Others may do the same at the same time.
func (c *Config) complete(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover) (*directory.Map, error) {
	for {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return nil, directory.Unreachable(ctx, err)
		}
		p := m.Removing()
		if p == nil {
			return m, nil
		}
		c.report("waiting %v until all clients know that partition %d is %s", m.Grace(), p.ID, p.Phase)
		if err := directory.Drain(ctx, dir, m.Grace()); err != nil {
			return nil, err
		}
		switch p.Phase {
		case directory.Yielding:
			_, err = (&grow.Config{Option: c.Option, Progress: c.Progress}).Switch(ctx, dir, func(next *directory.Map) {
				if p := next.Removing(); p != nil && p.Phase == directory.Yielding {
					p.Phase = directory.Yielded
				}
			})
		case directory.Yielded:
			if err = c.empty(ctx, f, dir, mover, p.ID); err == nil {
				err = edit(ctx, dir, p.Phase, func(next *directory.Map) { enter(next, directory.Removed) })
			}
		case directory.Removed:
			c.dismiss(ctx, m.Fleet, *p)
			err = edit(ctx, dir, p.Phase, func(next *directory.Map) { next.Partitions = next.Partitions[:p.ID] })
		}
		if err != nil {
			return nil, err
		}
	}
}

// edit changes the map while the last partition is in a phase. If it is in another one,
// somebody else was faster.
func edit(ctx context.Context, dir directory.Directory, phase directory.Phase, change func(next *directory.Map)) error {
	_, err := directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		if p := next.Removing(); p == nil || p.Phase != phase {
			return false, nil
		}
		change(next)
		return true, nil
	})
	return err
}

// emptyInterval is the pause between two tries to empty a partition.
const emptyInterval = 500 * time.Millisecond

// empty moves tags away that came to the partition after it was found empty, and hands its
// records over.
func (c *Config) empty(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, partition int) error {
	c.report("handing the records of partition %d over to other partitions", partition)
	for reported := false; ; reported = true {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return directory.Unreachable(ctx, err)
		}
		if p := m.Removing(); p == nil || p.Phase != directory.Yielded {
			return nil // somebody else was faster
		}
		if _, err := mover.Drain(ctx, partition, rebalance.DrainConfig{}); err != nil {
			return err
		}
		left, err := mover.HandOver(ctx, partition)
		switch {
		case err != nil:
			return err
		case left == 0:
			return alien(ctx, f, partition)
		case !reported:
			c.report("waiting for calls that move or forget tags, %d for now", left)
		}
		if !retry.Sleep(ctx, emptyInterval) {
			return context.Cause(ctx)
		}
	}
}
