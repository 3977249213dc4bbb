package shuffleshard

// Get returns the shuffle shard of a key, of any bytes: count distinct items out of 0..items-1, in
// order of preference, highest score first. A count beyond items counts as items; with items or
// count below 1 the shard is nil.
//
// The result is the only allocation. The time grows with items (use thousands at most), and for
// counts in the hundreds with the square of count; 4 of 64 take well under a microsecond. A shard
// never changes, so it can be cached.
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
		// Few items come this far: scoring members again is cheaper than a second
		// allocation for their scores.
		at := len(shard) - 1
		for ; at > 0 && score(hash, shard[at-1]) < s; at-- {
			shard[at] = shard[at-1]
		}
		shard[at] = item
		least = score(hash, shard[len(shard)-1])
	}
	return shard
}

// hashKey is FNV-1a of 64 bits. hash/fnv takes bytes, and would copy the key.
func hashKey(key string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	return h
}

// score is the score of an item for a key: output number item of a SplitMix64 generator that starts
// at hash. Every step is invertible, so no two items of a key have the same score.
func score(hash uint64, item int) uint64 {
	z := hash + (uint64(item)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Collision returns the probabilities that the shards of two random keys have exactly i members in
// common, for i from 0 to count: the first element is that they share nothing, the last, p, a full
// collision. They are exact but for rounding, and their sum is 1.
//
// At least one of n quiet tenants collides fully with a noisy one with the probability 1-(1-p)^n,
// in Go best written -math.Expm1(n*math.Log1p(-p)), which keeps its digits when p is tiny. On
// average n*p tenants do.
//
// Arguments are those of [Get]. Empty shards have nothing in common.
func Collision(items, count int) []float64 {
	count = min(count, items)
	if count < 1 {
		return []float64{1}
	}
	// Of C(items, count) shards, C(count, i) * C(items-count, count-i) share i members with a
	// given one. Binomials overflow, but their ratios from one i to the next do not: start at
	// the likeliest overlap with any weight, go down and up, and divide by the sum.
	n, k := float64(items), float64(count)
	likeliest := int((k + 1) * (k + 1) / (n + 2))
	p := make([]float64, count+1)
	p[likeliest] = 1
	sum := 1.0
	for i := likeliest; i > max(0, 2*count-items); i-- { // so many are shared at the least
		p[i-1] = p[i] / ratio(n, k, float64(i))
		sum += p[i-1]
	}
	for i := likeliest + 1; i <= count; i++ {
		p[i] = p[i-1] * ratio(n, k, float64(i))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// ratio is how many times likelier an overlap of i members is than one of i-1.
func ratio(n, k, i float64) float64 {
	return (k - i + 1) * (k - i + 1) / (i * (n - 2*k + i))
}
