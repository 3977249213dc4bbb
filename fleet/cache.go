package fleet

import (
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
)

// placement is a cached place of a tag.
type placement struct {
	home, via           int   // the partition that has the tag, and the one whose record says so
	homeEpoch, viaEpoch int64 // their epochs when the tag was found
	until               int64 // when the entry expires, by Fleet.now
	position            uint64
	leaving             bool // the tag is about to be moved: writers ask each time

	wrote atomic.Int64 // when this process last wrote for the tag, by Fleet.now
}

// holds reports whether a placement is valid: it has not expired, and both partitions
// still have the masters that were asked.
func (p *placement) holds(v *view, now int64) bool {
	return now < p.until && p.home < len(v.partitions) && p.via < len(v.partitions) &&
		v.partitions[p.home].Epoch == p.homeEpoch && v.partitions[p.via].Epoch == p.viaEpoch
}

// ways is the number of slots that a tag can use.
const ways = 8

// cache is a set-associative cache of placements without locks: the tag's hash selects
// one of the sets, and a look-up reads at most eight pointers. If a set is full, the
// placement that expires first is evicted.
type cache struct {
	seed maphash.Seed
	sets []cacheSet // a power of two
}

type cacheSet [ways]atomic.Pointer[cacheEntry]

type cacheEntry struct {
	tag   string
	place *placement
}

// newCache returns a cache for that many placements. It has room for twice as many, so
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

// put caches a placement. Two that are put for one tag at the same time may both stay
// for a while; both are valid.
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
	// The tag may be a substring of a large text.
	s[victim].Store(&cacheEntry{strings.Clone(tag), p})
}

// drop removes the placements of a tag.
func (c *cache) drop(tag string) {
	s := c.setOf(tag)
	for i := range s {
		if r := s[i].Load(); r != nil && r.tag == tag {
			s[i].CompareAndSwap(r, nil)
		}
	}
}
