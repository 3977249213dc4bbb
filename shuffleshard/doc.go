// Package shuffleshard gives every tenant a few of many shared places, such as
// the streams of a queue, so that a tenant who fills theirs leaves nearly everyone
// else a place that is free.
//
// # The problem
//
// A queue that all tenants share is fair to messages, not to tenants. One that
// writes 100,000 messages at once puts every other tenant behind them: the noisy
// neighbour. A queue for each tenant cures that, and with ten thousand tenants
// there are ten thousand queues to poll, most of them empty. Splitting the tenants
// over eight queues by a hash bounds the damage to one in eight of them, but those
// are hit with full force, and always the same ones.
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
// The hand is a function of the key alone, and no table of hands has to be kept or
// agreed on. The function is rendezvous hashing: every item is given a score that
// depends on the key and the item, and the items with the highest scores are the
// shard. When an item is added, the scores of the others stay what they were, so
// all that can happen is that the new one outdoes the last of the shard.
//
// The members of a shard come in order of preference, the highest score first,
// because a caller needs a way to settle ties. When several streams are equally
// empty, take the one that comes first: every item comes first for the same share
// of the keys, whereas the smallest number would send the traffic of an idle queue
// to the low streams. Who needs numbers in order can sort them.
//
// # What is guaranteed
//
//   - A shard has count different members, each in 0..items-1, and is the same in
//     every process, on every machine, in every release and every language.
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
// The isolation is a matter of chance. Two tenants have the same shard of 2 out of
// 16 once in 120 times, so of 60 quiet tenants one or more wait behind a noisy one
// in 39% of all cases. With 4 of 16 that is 3.2%, and with 4 of 64 it is 0.009%.
// [Collision] has the numbers; choose the size by them, not by taste.
//
// That is against one noisy tenant. Several cover more items together: against ten
// at once, a quiet tenant with 4 of 64 has no free item left in 4.7% of all cases.
// With more members a shard meets a free item more often, and a flood takes more
// of them.
//
// Keys are no secret. A tenant who may choose their own name can try names until
// the shard is that of somebody else. If tenants are not to be trusted with that,
// put a secret before the name.
//
// Only the last item can be removed. To replace one in the middle, change what
// the caller keeps behind that number.
//
// # When not to use it
//
// When two tenants must never share everything, chance will not do: keep a table
// of shards, hand out a new one only if it overlaps little enough with those
// handed out, and accept that the table has to be stored and runs out of shards.
// When there are fewer tenants than items, give each one its own. When the
// messages of a tenant must stay in order, spreading them over several streams
// breaks that; a count of 1 keeps it, and is plain hashing. With many thousand
// items, scoring all of them takes longer than a look-up on a hash ring.
//
// # Credit
//
// Shuffle sharding is an idea of Amazon Web Services, who described it for their
// name servers. Rendezvous hashing is due to Thaler and Ravishankar, FNV to Fowler,
// Noll and Vo, SplitMix64 to Steele, Lea and Flood.
package shuffleshard
