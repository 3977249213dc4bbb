package fleet

import (
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
)

// placement is where a tag is, as far as this process knows.
type placement struct {
	home, via           int   // the partition that has the tag, and the one whose record says so
	homeEpoch, viaEpoch int64 // theirs, when it was found out
	until               int64 // for how long it may be used, see Fleet.now
	position            uint64
	leaving             bool // the tag is about to be moved: whoever writes asks each time

	wrote atomic.Int64 // when this process last wrote for the tag, see Fleet.now
}

// holds reports whether a placement may be used: it is not too old, and neither
// partition has another master than the one that was asked.
func (p *placement) holds(v *view, now int64) bool {
	return now < p.until && p.home < len(v.partitions) && p.via < len(v.partitions) &&
		v.partitions[p.home].epoch == p.homeEpoch && v.partitions[p.via].epoch == p.viaEpoch
}

// ways is how many places in the cache a tag may take.
const ways = 8

// cache remembers placements. It is a table of sets of eight, and the tag's hash
// says which set: a look-up reads at most eight pointers and takes no lock. Where
// all eight are taken, the placement that ends first makes room: to find it again
// takes one question.
type cache struct {
	seed maphash.Seed
	sets []cacheSet // a power of two
}

type cacheSet [ways]atomic.Pointer[remembered]

type remembered struct {
	tag   string
	place *placement
}

// newCache returns one for that many placements. It has room for twice as many, so
// that few sets are full.
func newCache(many int) *cache {
	sets := 1
	for sets*ways < 2*many {
		sets *= 2
	}
	return &cache{seed: maphash.MakeSeed(), sets: make([]cacheSet, sets)}
}

func (c *cache) setOf(tag string) *cacheSet {
	return &c.sets[maphash.String(c.seed, tag)&uint64(len(c.sets)-1)]
}

func (c *cache) get(tag string) *placement {
	s := c.setOf(tag)
	for i := range s {
		if r := s[i].Load(); r != nil && r.tag == tag {
			return r.place
		}
	}
	return nil
}

// put remembers a placement. Of two for the same tag that are put at the same time
// both may be held for a while; either may be used.
func (c *cache) put(tag string, p *placement) {
	s := c.setOf(tag)
	victim, ends := 0, int64(math.MaxInt64)
	for i := range s {
		r := s[i].Load()
		if r == nil || r.tag == tag {
			victim = i
			break
		}
		if r.place.until < ends {
			victim, ends = i, r.place.until
		}
	}
	// The tag may be a part of a large text.
	s[victim].Store(&remembered{strings.Clone(tag), p})
}

// drop forgets a placement, wherever it is held.
func (c *cache) drop(tag string) {
	s := c.setOf(tag)
	for i := range s {
		if r := s[i].Load(); r != nil && r.tag == tag {
			s[i].CompareAndSwap(r, nil)
		}
	}
}
