// Package ring tells which partition a tag belongs to, and where its data may be
// if it was placed there before partitions were added. It is arithmetic: it does
// no I/O, keeps nothing, and can be repeated in any language.
//
// # The problem
//
// Data of many users lies on N partitions. Taking the hash modulo N moves nearly
// all of it when N changes. Consistent hashing moves one part in N, but it still
// moves data, while users work. This ring moves none: it says where new data
// goes, and in which order to look for old data.
//
// # The mechanism
//
// A tag's position is a 64-bit number ([Position]). Partitions have points on the
// ring of such numbers, at equal distances. A tag belongs to the partition whose
// point comes first clockwise, which is upwards, and around at the end.
//
//	       0                          0, generation 1 in between
//	     ┌─A─┐                          ┌─A─┐
//	     │   │                          H   E
//	3/4 ─D   B─ 1/4      grows          D   B
//	     │   │          ───────▶        G   F
//	     └─C─┘                          └─C─┘
//	      1/2
//
// New partitions get points in the middles between the old ones, and a
// generation: 0 for the first ones, one more each time that some are added. A tag
// between D and H belonged to A and belongs to H now. What was written for it
// before is still in A. So a reader asks H, and then the one to which the tag
// belonged one generation before, and so on ([Ring.Candidates]): the next point
// clockwise of a lower generation. Points of the same or a higher generation in
// between cannot have had it.
//
// After g doublings that is g/2 partitions more than one on average, and g at
// most. A walk over all points clockwise would be (2^g-1)/2.
//
// # Guarantees
//
//   - A partition that is added takes tags from one neighbour of each of its points
//     and no other tag changes its partition.
//   - Candidates names every partition to which a tag ever belonged, the newest
//     first, each once. Walk names all partitions.
//   - The same points give the same answers everywhere, for ever: testdata has
//     vectors.
//   - A look-up allocates nothing.
//
// # The wrinkle
//
// The shares of partitions are even only when points are at even distances. One
// partition added to 160 halves one share of 160; only doubling makes all even
// again. And after growing by d times the old number without moving data, the old
// partitions keep what they have: they are emptier than new ones only where new
// users come. Weights give a partition several points, so that a larger one takes
// more; what counts for balance in practice is that users are of similar size.
//
// # When not to use it
//
// When data may be moved at will, Redis Cluster's slots do that, and keep each
// look-up at one step. When tags must be spread over few, unequal or often
// changing members, package shuffleshard's rendezvous hashing is more even.
//
// The design is that of Meshin, which compared hash functions on its users'
// e-mail addresses and chose SHA-1, folded; the benchmark BenchmarkSpread repeats
// that comparison.
package ring
