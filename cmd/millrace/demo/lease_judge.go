package demo

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace"
)

// judge says what the first holder was promised, and what it got.
func (p *leasePlay) judge() Scene {
	var seen Scene
	lost := holdings - p.locksLeft
	seen.check("pressure", p.evicted > 0 && lost > 0,
		"memory was so full that %s keys were evicted, and with them %d of %d locks with a TTL", grouped(p.evicted), lost, holdings)
	seen.check("leases_stay", p.leasesLeft == holdings,
		"no lease was evicted: %d of %d are with the holder that took them", p.leasesLeft, holdings)
	seen.check("one_holder", p.rival.Tried == holdings && p.rival.Leases == 0,
		"no lease got a second holder: %d of %d; of the locks %d did", p.rival.Leases, holdings, p.rival.Locks)
	seen.check("works_when_full", p.refreshed == holdings && p.released == holdings,
		"on a full server leases are refreshed and released: %d and %d of %d", p.refreshed, p.released, holdings)
	seen.check("full_is_told", errors.Is(p.full, millrace.ErrFull) && !p.created,
		"on a full server a new lease is refused, with the code %q, and nothing is written", millrace.Code(p.full))
	seen.check("evictable_is_told", errors.Is(p.evictable, millrace.ErrEvictable),
		"on a server that may evict any key a lease is refused, with the code %q", millrace.Code(p.evictable))

	minutes := fmt.Sprintf("SET NX PX, for %d minutes", int(holdFor.Minutes()))
	seen.count("cached", int64(p.cached), "values cached", fmt.Sprintf("of %d bytes, with a TTL; memory for %d MB", cacheValue, memoryLimit>>20))
	seen.count("evicted", p.evicted, "keys evicted", "by volatile-lru")
	seen.count("locks", holdings, "locks taken", minutes)
	seen.count("locks_left", p.locksLeft, "locks left", "the holders of the others do not know")
	seen.count("locks_taken_twice", int64(p.rival.Locks), "locks with two holders", "a second process took them")
	seen.count("leases", holdings, "leases taken", "for the same time")
	seen.count("leases_left", p.leasesLeft, "leases left", "")
	seen.count("leases_taken_twice", int64(p.rival.Leases), "leases with two holders", "")
	seen.count("refreshed", int64(p.refreshed), "leases refreshed", "on a full server")
	seen.count("released", int64(p.released), "leases released", "on a full server")
	return seen
}
