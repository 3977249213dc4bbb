package rebalance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/fleet/members"
)

// Yield is Restored for a partition that could not be asked then, and for one that clients
// use: of the tags that both have, the data in the partition named by to counts. What
// clients have written to the restored partition since is lost; lost receives these tags
// when no client writes there any more, and before they are used in their place.
//
//	record here           clients
//
//	HERE                  remember this partition
//	HERE +restored.TO     use it, and look it up each time
//	│ until no client remembers it
//	HERE !restored.TO     read here; writers wait
//	│ until no write in flight can succeed
//	│ lost is called
//	TO +to.TO.restored    use TO; an agent deletes the keys here
//
// If lost fails, the tags stay here. A call that failed or was cut off is to be repeated. The
// tag first is given up before all others,
// and without lost, which may need it.
func (m *Mover) Yield(ctx context.Context, partition, to int, first string, lost func(tags []string) error) error {
	var both []string
	err := m.pages(ctx, partition, func(page []tagRecord) error {
		there, err := m.recordsOf(ctx, to, tagsIn(page, partition))
		both = append(both, tagsIn(there, to)...)
		return err
	})
	slices.Sort(both)
	both = slices.Compact(both)
	if err == nil {
		both, err = m.surely(ctx, both, to)
	}
	if err != nil || len(both) == 0 {
		return err
	}
	if slices.Contains(both, first) {
		if err := m.yield(ctx, partition, to, []string{first}, func([]string) error { return nil }); err != nil {
			return err
		}
		both = slices.DeleteFunc(both, func(tag string) bool { return tag == first })
	}
	if err := m.yield(ctx, partition, to, both, lost); err != nil {
		return err
	}
	if m.cfg.Moves == nil {
		return nil
	}
	return m.cfg.Moves.Unfinished(ctx, restoredName(partition, m.fleetMap().Epoch))
}

// surely returns the tags that are in a partition by its master's word, which agents have
// examined.
func (m *Mover) surely(ctx context.Context, tags []string, partition int) (sure []string, err error) {
	var mu sync.Mutex
	err = each(ctx, tags, func(tag string) error {
		text, r, err := m.read(ctx, partition, tag)
		if err == nil && text != "" && r.Home == partition {
			mu.Lock()
			sure = append(sure, tag)
			mu.Unlock()
		}
		return err
	})
	return sure, err
}

func (m *Mover) yield(ctx context.Context, partition, to int, tags []string, lost func(tags []string) error) error {
	record := func(step, after string) error {
		return each(ctx, tags, func(tag string) error {
			before, r, err := m.read(ctx, partition, tag)
			if err != nil || before == "" || r.Home != partition {
				return err
			}
			return m.exchange(ctx, step, partition, tag, before, after)
		})
	}
	token := fmt.Sprintf("%s.%d", restoredRun, to)
	if err := record("give up", markedText(partition, members.Leaving, token)); err != nil {
		return err
	}
	if err := m.wait(ctx, "until forgotten", m.times().remembered); err != nil {
		return err
	}
	if err := record("stop", markedText(partition, members.Moving, token)); err != nil {
		return err
	}
	if err := m.wait(ctx, "until written", m.times().inFlight); err != nil {
		return err
	}
	if err := lost(tags); err != nil {
		late, cancel := m.late(ctx)
		defer cancel()
		ctx = late
		_ = record("go on", homeText(partition)) // writers need not wait for the next try
		return err
	}
	return record("yield", trip{from: partition, to: to, run: restoredRun}.gone())
}
