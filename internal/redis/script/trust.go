package script

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// trust is how long an answer shows that connections are open, in milliseconds.
const trust = 1000

// recent remembers which servers answered a moment ago. A Cluster's client has many: the
// answer to one key shows nothing about the server of another key.
type recent [32]atomic.Pointer[answered]

// answered is when a server last answered to a key, in Unix milliseconds.
type answered struct {
	key string // empty for any
	at  atomic.Int64
}

// seed is the seed of the hashes of keys.
var seed = maphash.MakeSeed()

// place returns the place of a key, and the key to compare.
func (r *recent) place(client rueidis.Client, key string) (*atomic.Pointer[answered], string) {
	if client.Mode() != rueidis.ClientModeCluster {
		return &r[0], ""
	}
	return &r[maphash.String(seed, key)%uint64(len(r))], key
}

// has reports whether the key's server answered a moment ago.
func (r *recent) has(client rueidis.Client, key string) bool {
	place, key := r.place(client, key)
	last := place.Load()
	return last != nil && last.key == key && time.Now().UnixMilli()-last.at.Load() < trust
}

// note remembers that the key's server answered now.
func (r *recent) note(client rueidis.Client, key string) {
	place, key := r.place(client, key)
	last := place.Load()
	if last == nil || last.key != key {
		last = &answered{key: key}
		last.at.Store(time.Now().UnixMilli())
		place.Store(last)
		return
	}
	last.at.Store(time.Now().UnixMilli())
}
