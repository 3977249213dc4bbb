// Package shuffleshard gives every tenant a few of many shared places, such as the streams of a
// queue, so that a tenant that fills its places leaves nearly everyone else a free one.
//
// # The problem
//
// A queue that all tenants share is fair to messages, not to tenants: one that writes 100,000
// messages at once puts every other tenant behind them. A queue for each tenant solves that, but ten
// thousand tenants have ten thousand queues to poll, most of them empty. A hash over eight queues
// bounds the damage to one tenant in eight, always the same ones, with full force.
//
// # The mechanism
//
// Deal each tenant a small hand out of a deck of items: 2 of 8 streams, 4 of 64.
// There are 28 hands of two cards out of 8 and 635,376 of four out of 64, so
// tenants often share a stream, and hardly ever all of theirs. The writer of a
// message looks at the tenant's own streams and takes the one with the fewest
// messages waiting. It is enough that one is free.
//
//	stream   0  1  2  3  4  5  6  7
//	noisy    .  .  #  .  .  #  .  .    floods 2 and 5
//	ann      x  .  .  .  .  .  x  .    shares nothing with noisy
//	sam      .  x  x  .  .  .  .  .    shares 2, so writes to 1
//	fay      .  .  x  .  .  x  .  .    shares both, and waits behind the flood
//
// A queue on such places is a shuffle queue: so Replicate names its own, Redis streams of which a
// tenant has a few and a write takes the shortest.
//
// The hand is a function of the key alone, so no table of hands must be stored. The function is
// rendezvous hashing: every item has a score that depends on the key and the item, and the items
// with the highest scores are the shard. A new item leaves the other scores unchanged, so it can
// only replace the last of the shard.
//
// The members of a shard are in order of preference, the highest score first, to settle ties: of
// equally empty streams take the first. Every item comes first for the same share of the keys,
// whereas the smallest number would send the traffic of an idle queue to the low streams.
//
// # Guarantees
//
//   - A shard has count different members of 0..items-1, the same in every process, on every
//     machine, in every release and every language.
//   - Adding an item changes at most one member of a shard, and only in
//     count/(items+1) of the shards. Removing the last item is that backwards. The
//     members that stay keep their order.
//   - A shard of fewer members is the beginning of one of more, so raising the
//     count takes nothing away.
//   - Every item is in the same share of the shards, and how much two shards
//     overlap follows the probabilities that [Collision] gives, also for keys that
//     differ in one character only. That is measured with 100,000 keys, not proved,
//     as with every hash.
//
// # The algorithm
//
// All numbers are unsigned, of 64 bits, and wrap around; shifts fill with zeros.
// Hexadecimal digits are meant where 0x stands before them.
//
// The hash of a key is FNV-1a over its bytes. Text is taken as its UTF-8 bytes,
// without normalising it.
//
//	h = 0xcbf29ce484222325
//	for each byte b of the key:
//	    h = (h xor b) * 0x100000001b3
//
// The score of an item, whose numbers begin at 0, is output number item of the
// generator SplitMix64 with h as its seed.
//
//	z = h + (item + 1) * 0x9e3779b97f4a7c15
//	z = (z xor (z >> 30)) * 0xbf58476d1ce4e5b9
//	z = (z xor (z >> 27)) * 0x94d049bb133111eb
//	score = z xor (z >> 31)
//
// The shard is the count items with the highest scores, highest first. Scores are
// compared as unsigned numbers. No two items of a key have the same score, because
// each step can be undone.
//
// For the key "a", h is 0xaf63dc4c8601ec8c, and items 0 to 3 score
// 0x5f29c2aadd9b8527, 0xff84f1bdb6d3884f, 0xfdfab147e960346e and
// 0xaf99d20610c74918: its shard of 2 out of 4 is 1, 2. The file
// testdata/vectors.json has more, among them keys that are empty, long, or not
// UTF-8, and testdata/shuffleshard.mjs is the algorithm in JavaScript.
//
// # The wrinkle
//
// The isolation is a matter of chance. Two tenants have the same shard of 2 out of 16 once in 120
// times, so of 60 quiet tenants one or more wait behind a noisy one in 39% of all cases. With 4 of
// 16 that is 3.2%, and with 4 of 64 it is 0.009%. Choose the size by [Collision].
//
// Several noisy tenants cover more items together: against ten at once, a quiet tenant with 4 of 64
// has no free item left in 4.7% of all cases. With more members a shard finds a free item more
// often, and a flood takes more of them.
//
// Keys are not secret. A tenant that chooses its own name can try names until it has another
// tenant's shard. To prevent that, put a secret before the name.
//
// Only the last item can be removed. To replace another one, keep its number.
//
// # When not to use it
//
// When two tenants must never share everything, keep a table of shards and give out only shards
// with little overlap; the table must be stored, and runs out of shards. With fewer tenants than
// items, give each one its own. When the messages of a tenant must stay in order, use a count of 1,
// which is plain hashing. With many thousand items, scoring all of them takes longer than a look-up
// on a hash ring.
//
// # Credit
//
// Shuffle sharding is an idea of Amazon Web Services, who described it for their
// name servers. Rendezvous hashing is due to Thaler and Ravishankar, FNV to Fowler,
// Noll and Vo, SplitMix64 to Steele, Lea and Flood.
package shuffleshard
