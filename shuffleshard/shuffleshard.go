package shuffleshard

// Get returns the shuffle shard of a key: count distinct items out of
// 0..items-1, in order of preference. Any bytes are a key, and none are one too.
//
// A count beyond items counts as items: the shard is then all items, in the
// key's own order. With items or count below 1 there is nothing to choose, and
// the shard is nil. Items are meant to be thousands at most: each is scored.
//
// The result is the caller's and the only allocation. The time grows with items,
// and for counts in the hundreds with the square of count; 4 of 64 take well under
// a microsecond. A shard never changes, so who needs it often can keep it, and
// there is no variant that fills a slice of the caller's.
func Get(items, count int, key string) []int {
	count = min(count, items)
	if count < 1 {
		return nil
	}
	hash := hashKey(key)
	shard := make([]int, 0, count)
	var least uint64 // the score of the shard's last member
	for item := range items {
		s := score(hash, item)
		if len(shard) < count {
			shard = append(shard, item)
		} else if s < least {
			continue
		}
		// Few items come this far, so scoring members again costs less than
		// keeping their scores, which would be a second allocation.
		at := len(shard) - 1
		for ; at > 0 && score(hash, shard[at-1]) < s; at-- {
			shard[at] = shard[at-1]
		}
		shard[at] = item
		least = score(hash, shard[len(shard)-1])
	}
	return shard
}

// hashKey is FNV-1a of 64 bits. It is not hash/fnv because that takes bytes,
// and the key would be copied.
func hashKey(key string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	return h
}

// score is what an item is worth to the key of that hash: output number item of
// a SplitMix64 generator that starts at hash. Every step can be undone, so no two
// items have the same score for a key.
func score(hash uint64, item int) uint64 {
	z := hash + (uint64(item)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
