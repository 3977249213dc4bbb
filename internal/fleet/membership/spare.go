package membership

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
)

// noPartition is the partition of a spare: what an earlier attempt left of one has no identity either.
const noPartition = -1

// AddSpares makes empty servers spares of a fleet, all or none, and returns the map. Each is restarted once, as a new member.
// Those that are spares already are left alone. The error is millrace.ErrBadArgument for a member, or grow.ErrUnfit for a server
// that cannot become one.
func (c *Config) AddSpares(ctx context.Context, dir *directory.Directory, m *directory.Map, spares ...directory.Member) (*directory.Map, error) {
	joining := map[directory.Member]int{}
	for _, s := range spares {
		if find(m.Spares, s.Addr) == nil {
			joining[s] = noPartition
		}
	}
	if len(joining) == 0 {
		return m, nil
	}
	if err := refuseMembers(m, joining); err != nil {
		return nil, err
	}
	if err := c.grow().Prove(ctx, m, joining); err != nil {
		return nil, err
	}
	pool := members.New(c.Option, 2*time.Second)
	defer pool.Close()
	for s := range joining { // without a restart it may be open
		_, err := members.Ask(ctx, pool, s.Addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
			return struct{}{}, members.Fence(ctx, c)
		})
		if err != nil {
			return nil, members.ErrUnavailable.Errorf("%s cannot be fenced", s.Addr).Wrap(err)
		}
	}
	return directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		for s := range joining {
			if s.Boot = directory.BootFenced; c.RestartTimeout < 0 {
				s.Boot = ""
			}
			if find(next.Spares, s.Addr) == nil {
				next.Spares = append(next.Spares, s)
			}
		}
		slices.SortFunc(next.Spares, func(a, b directory.Member) int { return strings.Compare(a.Addr, b.Addr) })
		return true, refuseMembers(next, joining)
	})
}

// refuseMembers refuses servers that are members.
func refuseMembers(m *directory.Map, joining map[directory.Member]int) error {
	d := &draft{m: m}
	for s := range joining {
		if id := d.home(s.Addr); id >= 0 {
			return millrace.ErrBadArgument.Errorf("the server at %s is a member of partition %d", s.Addr, id)
		}
	}
	return nil
}

// RemoveSpares takes spares back, all or none, and returns the map. The servers stay as they are, empty and fenced. The error is
// millrace.ErrNotFound for a server that is no spare.
func RemoveSpares(ctx context.Context, dir *directory.Directory, addrs ...string) (*directory.Map, error) {
	return directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		for _, addr := range addrs {
			if find(next.Spares, addr) == nil {
				return false, notFound("%s is not one of %s: it may have replaced a member", addr, readable.Count(len(next.Spares), "spare"))
			}
		}
		next.Spares = slices.DeleteFunc(next.Spares, func(m directory.Member) bool { return slices.Contains(addrs, m.Addr) })
		return true, nil
	})
}
