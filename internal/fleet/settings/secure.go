package settings

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
)

// secureInterval is the pause between two checks of all partitions.
const secureInterval = time.Second

// secure waits until as many replicas as the next settings rely on have all that was written
// to each partition until now. It returns the map with these replicas: one that joins later
// may lack something.
func (c *Config) secure(ctx context.Context, dir directory.Directory, since int64) (*directory.Map, error) {
	pool := members.New(c.Option, 2*time.Second)
	defer pool.Close()
	reported := ""
	for {
		before, next, err := pending(ctx, dir, since)
		if err != nil || next == nil {
			return before, err
		}
		if err = copied(ctx, pool, before, next.Settings.Confirmed); err == nil {
			// A server that was replaced meanwhile may have confirmed less.
			after, _, err := pending(ctx, dir, since)
			if err != nil || sameMembers(before, after) {
				return before, err
			}
		} else if err.Error() != reported {
			reported = err.Error()
			c.report("not yet: %s", reported)
		}
		if !retry.Sleep(ctx, secureInterval) {
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// sameMembers reports whether all partitions have the same masters and the same replicas.
func sameMembers(a, b *directory.Map) bool {
	return slices.EqualFunc(a.Partitions, b.Partitions, func(p, q directory.Partition) bool {
		return p.Epoch == q.Epoch && slices.EqualFunc(p.Members(), q.Members(), func(m, n directory.Member) bool { return m.Addr == n.Addr })
	})
}

// copied returns an error unless that many replicas of each partition, or all if there are
// fewer, have all that was written there before the call.
func copied(ctx context.Context, pool *members.Pool, m *directory.Map, need int) error {
	errs := make([]error, len(m.Partitions))
	var asking sync.WaitGroup
	for i, p := range m.Partitions {
		asking.Go(func() {
			_, errs[i] = members.Ask(ctx, pool, p.Master.Addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
				return struct{}{}, copiedFrom(ctx, c, m.Fleet, p, min(need, len(p.Replicas)))
			})
		})
	}
	asking.Wait()
	return errors.Join(errs...)
}

// copiedFrom does so for one partition, at its master.
func copiedFrom(ctx context.Context, c rueidis.Client, fleet string, p directory.Partition, need int) error {
	const timeout = time.Second
	report, err := members.Examine(ctx, c)
	switch {
	case err != nil:
		return members.ErrUnavailable.Errorf("partition %d does not answer", p.ID).Wrap(err)
	case p.ReadOnly || !report.Master || report.Identity != members.Identity(fleet, p.ID) || p.Master.Run != "" && report.Run != p.Master.Run:
		return members.ErrUnavailable.Errorf("partition %d gets another master", p.ID)
	case p.Leaving != nil:
		return members.ErrUnavailable.Errorf("%s leaves partition %d, and elections count it until it has left", p.Leaving.Addr, p.ID)
	}
	var names replicas.Names
	counts := func(ip, port string) bool {
		return slices.ContainsFunc(p.Replicas, func(r directory.Member) bool { return names.Match(r.Addr, ip, port) })
	}
	_, copies, err := replicas.ConfirmAmong(ctx, c, members.Base, counts, need, timeout)
	if err == nil && copies.Have < need {
		err = members.ErrUnavailable.Errorf("%d of %d replicas of partition %d have all that was written", copies.Have, need, p.ID)
	}
	return err
}
