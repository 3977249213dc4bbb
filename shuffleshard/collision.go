package shuffleshard

// Collision returns how likely shards overlap: element i is the probability that
// the shards of two random keys have exactly i members in common, for i from 0 to
// count. The first element is that they share nothing; the last, p, is a full
// collision. The probabilities are exact but for the rounding of floating-point
// numbers, and their sum is 1.
//
// That at least one of n quiet tenants collides fully with a noisy one has the
// probability 1-(1-p)^n, because given the shard of the noisy one, those of the
// others are independent. In Go that is best written
// -math.Expm1(n*math.Log1p(-p)), which keeps its digits when p is tiny. On average
// n*p tenants do.
//
// Arguments count as they do for [Get]: a count beyond items as items, and with
// either below 1 shards are empty, and have nothing in common with certainty.
func Collision(items, count int) []float64 {
	count = min(count, items)
	if count < 1 {
		return []float64{1}
	}
	// Of C(items, count) shards, C(count, i) * C(items-count, count-i) share i
	// members with a given one. Binomials overflow, their ratios from one i to the
	// next do not: start at the likeliest overlap with any weight, go down and up
	// from there, and divide by the sum.
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
