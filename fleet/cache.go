package fleet

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
)

// placement is where a tag is, as far as this process knows.
type placement struct {
	home, via           int   // the partition that has the tag, and the one whose record says so
	homeEpoch, viaEpoch int64 // theirs, when it was found out
	until               int64 // for how long it may be used, see Fleet.now
	position            uint64

	wrote atomic.Int64 // when this process last wrote for the tag, see Fleet.now
}

// holds reports whether a placement may be used: it is not too old, and neither
// partition has another master than the one that was asked.
func (p *placement) holds(v *view, now int64) bool {
	return now < p.until && p.home < len(v.partitions) && p.via < len(v.partitions) &&
		v.partitions[p.home].epoch == p.homeEpoch && v.partitions[p.via].epoch == p.viaEpoch
}

const cacheShards = 64

// cache remembers placements, as many as it may. One that is to make room is
// chosen blindly: to find it again takes one question.
type cache struct {
	seed   maphash.Seed
	most   int // in a shard
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	sync.RWMutex
	places map[string]*placement
	_      [64]byte // keeps the locks of two shards on different cache lines
}

func newCache(most int) *cache {
	c := &cache{seed: maphash.MakeSeed(), most: max(1, most/cacheShards)}
	for i := range c.shards {
		c.shards[i].places = map[string]*placement{}
	}
	return c
}

func (c *cache) shard(tag string) *cacheShard {
	return &c.shards[maphash.String(c.seed, tag)%cacheShards]
}

func (c *cache) get(tag string) *placement {
	s := c.shard(tag)
	s.RLock()
	p := s.places[tag]
	s.RUnlock()
	return p
}

func (c *cache) put(tag string, p *placement) {
	s := c.shard(tag)
	s.Lock()
	defer s.Unlock()
	if _, ok := s.places[tag]; !ok && len(s.places) >= c.most {
		for victim := range s.places {
			delete(s.places, victim)
			break
		}
	}
	// The tag may be a part of a large text.
	s.places[strings.Clone(tag)] = p
}

func (c *cache) drop(tag string) {
	s := c.shard(tag)
	s.Lock()
	defer s.Unlock()
	delete(s.places, tag)
}
