// Package ring computes which partition a tag belongs to, and where its data may be if it
// was placed before partitions were added. It does no I/O, keeps no state, and can be
// written in any language.
//
// # The problem
//
// Data of many users lies on N partitions. With a hash modulo N, nearly all of it moves when
// N changes. With consistent hashing one part in N moves, still while users work. This ring
// moves none: it gives the partition for new data, and the order in which to search for old
// data. The idea is Meshin's.
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
// New partitions get points in the middles between the old ones, and a generation: 0 for
// the first ones, one more for each addition. A tag between D and H belonged to A and
// belongs to H now. Its older data is still in A. So a reader asks H, then the owner one
// generation before, and so on ([Ring.Candidates]): the next point clockwise of a lower
// generation. Points of the same or a higher generation in between never had the tag.
//
// After g doublings that is 1 + g/2 partitions on average, and 1 + g at most. A walk over
// all points would visit (2^g-1)/2.
//
// # Guarantees
//
//   - An added partition takes tags from one neighbour of each of its points, and no other
//     tag changes its partition.
//   - Candidates are all partitions to which a tag ever belonged, the newest first, each
//     once. Walk yields all partitions.
//   - The same points give the same answers everywhere, in every version: testdata has
//     vectors.
//   - A look-up allocates nothing.
//
// # The wrinkle
//
// Shares are even only when points are at even distances. One partition added to 160 halves
// one share of 160; only doubling makes all even again. Old partitions keep their data when
// the ring grows. Weights give a partition several points, so that a larger one takes more
// tags. For balance, users should be of similar size.
//
// # When not to use it
//
// When data may move at any time: Redis Cluster's slots do that, with one step per look-up.
// When tags must be spread over few, unequal or often changing members: the rendezvous
// hashing of package shuffleshard is more even.
//
// The design is Meshin's, which compared hash functions on its users' e-mail addresses and
// found SHA-1, folded, the most even. BenchmarkSpread repeats that comparison, and does not find
// it: SHA-1 is as even as chance, and no other hash in it is worse, except for Adler-32. SHA-1
// stays, because where tags are depends on it.
package ring
