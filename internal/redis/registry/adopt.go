package registry

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// leasePrefix begins the key that is a lease.
const leasePrefix = "mr:lease:{"

// Adopted is the result of Adopt.
type Adopted struct {
	New    int   // structures and leases that were entered
	Failed int   // commands that failed, each of which was to enter one
	Err    error // the last failure; nil if there are none
}

// Adopt enters the structures that keys belong to, and the leases that are held or were
// abandoned, unless they are entered.
func Adopt(ctx context.Context, client rueidis.Client, keys []string) Adopted {
	now := time.Now()
	var cmds, ttls rueidis.Commands
	var leases []string
	for _, k := range keys {
		if kind, name, ok := find(k); ok {
			f := field(kind, name)
			cmds = append(cmds, client.B().Hsetnx().Key(key(shardOf(f, parts))).Field(f).Value(millis(now)).Build())
		}
		if name, ok := strings.CutPrefix(k, leasePrefix); ok && strings.HasSuffix(name, "}") {
			leases = append(leases, strings.TrimSuffix(name, "}"))
			ttls = append(ttls, client.B().Pttl().Key(k).Build())
		}
	}
	for i, answer := range multi(ctx, client, ttls) {
		if ttl, err := answer.AsInt64(); err != nil || ttl != -1 { // released leases expire by themselves
			continue
		}
		cmds = append(cmds, client.B().Arbitrary("ZADD").Keys(LeasesKey(shardOf(leases[i], DueShards))).
			Args("NX", millis(now.Add(DueAfter)), leases[i]).Build())
	}
	var a Adopted
	for _, answer := range multi(ctx, client, cmds) {
		switch n, err := answer.AsInt64(); {
		case err != nil:
			a.Failed++
			a.Err = err
		case n > 0:
			a.New++
		}
	}
	return a
}
