package membership

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/retry"
)

// How often Wait looks at the map, and how often it reports why it waits.
const (
	lookEvery = 100 * time.Millisecond
	sayEvery  = 10 * time.Second
)

// CarryOut proves the new servers of a plan, publishes it, and waits until it is done. It
// returns the map. A plan that has begun is only waited for. If ctx ends when the plan is in the map, or may be, the error
// is ErrBegun.
func (c *Config) CarryOut(ctx context.Context, dir *directory.Directory, m *directory.Map, r Request, p *Plan) (*directory.Map, error) {
	if p.Begun {
		c.report("an earlier command has begun this: waiting until it is done")
	} else {
		if joining := p.Newcomers(); len(joining) > 0 {
			if err := (*grow.Config)(c).Prove(ctx, m, joining); err != nil {
				return nil, err
			}
		}
		boot := directory.BootFenced
		if c.RestartTimeout < 0 {
			boot = ""
		}
		if err := Publish(ctx, dir, r, p, boot); err != nil {
			return nil, begun(ctx, err)
		}
		c.report("the plan %s is in the map: agents carry it out from now on", p.ID)
	}
	m, err := c.Wait(ctx, dir, p.ID)
	return m, begun(ctx, err)
}

// begun returns ErrBegun for an error that comes from the end of ctx.
func begun(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrBegun
	}
	return err
}

// Wait runs Config.Agent until all tasks of a plan are done, and reports each step. It returns
// the map. When ctx ends it returns its cause: other agents continue, or the next Wait.
func (c *Config) Wait(ctx context.Context, dir *directory.Directory, plan string) (*directory.Map, error) {
	if c.Agent != nil {
		defer c.Agent(ctx)()
	}
	var m *directory.Map
	var begun map[int]directory.Task // as they were at first
	said := time.Now()
	for {
		next, err := dir.Confirm(ctx, 0)
		switch {
		case err != nil && ctx.Err() == nil:
			// The agent's log says so, and it may answer again.
		case err == nil && m == nil:
			begun = tasks(next, plan)
		case err == nil:
			c.compare(m, next, begun)
		}
		if err == nil {
			m = next
			if len(tasks(m, plan)) == 0 {
				return m, lost(m, begun)
			}
		}
		if time.Since(said) > sayEvery && m != nil {
			c.explain(ctx, dir, m, plan)
			said = time.Now()
		}
		if !retry.Sleep(ctx, lookEvery) {
			return m, context.Cause(ctx)
		}
	}
}

// compare reports the changes in the partitions of a plan.
func (c *Config) compare(was, now *directory.Map, begun map[int]directory.Task) {
	for _, id := range sortedKeys(begun) {
		if id >= min(len(was.Partitions), len(now.Partitions)) {
			continue // the directory was restored from an older state
		}
		before, after := &was.Partitions[id], &now.Partitions[id]
		for _, member := range after.Members() {
			if directory.Find(before.Members(), member.Addr) == nil {
				c.report("partition %d: %s has all data, and is a replica", id, member.Addr)
			}
		}
		if before.Master.Addr != after.Master.Addr {
			c.report("partition %d: %s leads, in place of %s", id, after.Master.Addr, before.Master.Addr)
		}
		for _, member := range before.Members() {
			if directory.Find(after.Members(), member.Addr) == nil {
				c.report("partition %d: %s leaves", id, member.Addr)
			}
		}
		if before.Task == nil {
			continue
		}
		for _, restart := range before.Task.Restart {
			if after.Task == nil || !slices.Contains(after.Task.Restart, restart) {
				c.report("partition %d: %s was restarted, and is whole again", id, restart.Addr)
			}
		}
		if after.Task == nil {
			left := len(tasks(now, before.Task.Plan))
			c.report("partition %d is done: %d of %d", id, len(begun)-left, len(begun))
		}
	}
}

// explain reports the remaining tasks, with the newest event of each partition.
func (c *Config) explain(ctx context.Context, dir *directory.Directory, m *directory.Map, plan string) {
	events, err := dir.Events(ctx)
	if err != nil {
		return
	}
	for _, id := range sortedKeys(tasks(m, plan)) {
		what := "no agent has said anything"
		if i := slices.IndexFunc(events, func(e directory.Event) bool { return e.Partition == id }); i >= 0 {
			what = events[i].What
		}
		if strings.HasPrefix(what, failover.TaskDone) {
			what = "it waits for its turn" // that was another plan's
		}
		c.report("partition %d is not done: %s", id, what)
	}
}

// lost returns ErrConflict if tasks are gone that were not done: the directory was restored
// from an older state, or the plan was cancelled.
func lost(m *directory.Map, begun map[int]directory.Task) error {
	var undone []string
	for _, id := range sortedKeys(begun) {
		if id >= len(m.Partitions) {
			continue
		}
		members, task := m.Partitions[id].Members(), begun[id]
		if task.Add != nil && directory.Find(members, task.Add.Addr) == nil {
			undone = append(undone, task.Add.Addr+" did not join")
		}
		if task.Remove != "" && directory.Find(members, task.Remove) != nil {
			undone = append(undone, task.Remove+" did not leave")
		}
		for _, restart := range task.Restart {
			if member := directory.Find(members, restart.Addr); member != nil && member.Run == restart.Run {
				undone = append(undone, restart.Addr+" was not restarted")
			}
		}
	}
	if len(undone) == 0 {
		return nil
	}
	return directory.ErrConflict.Errorf("the map has no tasks of the plan any more, and not all was done: %s", strings.Join(undone, ", "))
}
