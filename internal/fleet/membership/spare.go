package membership

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
)

// noPartition is the partition of a spare, of which no server has the identity.
const noPartition = -1

// AddSpares makes empty servers spares of a fleet, all or none, and returns the map. Each is restarted once, as a new member.
// Those that are spares already are left alone. The error is millrace.ErrBadArgument for a member, or grow.ErrUnfit for a server
// that cannot become one.
func (c *Config) AddSpares(ctx context.Context, dir *directory.Directory, m *directory.Map, spares ...directory.Member) (*directory.Map, error) {
	joining := map[directory.Member]int{}
	add, err := newSpares(m, spares)
	if err != nil || len(add) == 0 {
		return m, err
	}
	for _, s := range add {
		joining[s] = noPartition
	}
	if err := (*grow.Config)(c).Prove(ctx, m, joining); err != nil {
		return nil, err
	}
	pool := members.New(c.Option, 2*time.Second)
	defer pool.Close()
	for i, s := range add {
		_, err := members.Ask(ctx, pool, s.Addr, func(ctx context.Context, c rueidis.Client) (struct{}, error) {
			return struct{}{}, members.Fence(ctx, c) // without a restart it may be open
		})
		if err != nil {
			return nil, grow.Unavailable(err, "%s cannot be fenced", s.Addr)
		}
		if c.RestartTimeout >= 0 {
			add[i].Boot = directory.BootFenced
		}
	}
	return directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		rest, err := newSpares(next, add)
		next.Spares = append(next.Spares, rest...)
		slices.SortFunc(next.Spares, func(a, b directory.Member) int { return strings.Compare(a.Addr, b.Addr) })
		return len(rest) > 0, err
	})
}

// newSpares returns the servers that are no spares yet, and refuses members.
func newSpares(m *directory.Map, servers []directory.Member) ([]directory.Member, error) {
	add := slices.DeleteFunc(slices.Clone(servers), func(s directory.Member) bool { return directory.Find(m.Spares, s.Addr) != nil })
	return add, (&draft{m: m}).new(add...)
}

// RemoveSpares takes spares back, all or none, and returns the map. The servers stay as they are, empty and fenced. The error is
// millrace.ErrNotFound for a server that is no spare.
func RemoveSpares(ctx context.Context, dir *directory.Directory, addrs ...string) (*directory.Map, error) {
	return directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		for _, addr := range addrs {
			if directory.Find(next.Spares, addr) == nil {
				return false, notFound("%s is not one of %s: it may have replaced a member", addr, readable.Count(len(next.Spares), "spare"))
			}
		}
		next.Spares = slices.DeleteFunc(next.Spares, func(m directory.Member) bool { return slices.Contains(addrs, m.Addr) })
		return true, nil
	})
}
