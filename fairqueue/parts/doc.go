// Package parts makes one queue of several, on several slots, partitions or servers.
//
// # The problem
//
// A fairqueue lies on one server, in one slot. So its rate is that of one core, and when its
// server is down, no messages move.
//
// # The mechanism
//
// A Queue has P parts. Each is a fairqueue of its own. A tenant has two of them, or
// [Config.PerTenant]: its shuffle shard. A write goes to the one in which the fewest messages
// wait, and avoids parts that do not answer. Readers wait for all parts.
//
//	            part 0     part 1     part 2     part 3
//	acme          ●          ●
//	globex                   ●          ●
//	initech       ●                                ●
//	            server a   server b   server c   server d ✗
//
// In the picture server d is down. initech's messages go to part 0; no other tenant notices. Two
// tenants share both parts only by chance: with four parts once in six pairs, with 16 once in 120.
// So a server that dies, or a flood that makes one slow, is the trouble of few tenants. See package
// shuffleshard.
//
// A part is open, full or silent. A full one takes no messages and is read; a silent one gets neither writes nor
// reads while others can take them. A part's first failure makes it full or silent, and looks in the background,
// after 100 ms at first and every 2 s at most, find when it would take a message: [fairqueue.Queue.Ready]. The
// load of a part is known from a look every 200 ms while the process writes or reads, and from its own writes. No
// write asks a part that it does not need. A look and a read of a part may outlive the call by [Config.Timeout].
//
// [Queue.Consume] has one set of handlers for all parts. A handler that is free goes to the parts
// in turn; see [fairqueue.Pool].
//
// # Guarantees
//
//   - At least once, as in a fairqueue: a message that was written is delivered until it is
//     acknowledged, cancelled, expired or dead. It stays in its part.
//   - A server that is down delays only messages that lie on it. Tenants with another part write there,
//     and their other messages go on. Messages on the server come when it is back, except those that
//     it has lost: that depends on its persistence.
//   - A write is sent to one part. If it gets no answer within [Config.Timeout], it is
//     [millrace.ErrUncertain], and is not sent to another part. Writes that follow avoid it.
//   - A part that refuses a message has not written it. The tenant's next part gets it, unless a
//     dedupe id or a source ties it to the part.
//   - Limits that are set with [LimitSettings] hold for a tenant's parts together.
//   - One silent part slows no call that does not need it. A part on a full server is drained.
//   - In a part, tenants take turns, exactly. Over the parts, each tenant has the sum of its turns,
//     which depends on the other tenants of its parts.
//   - Messages of a tenant keep their order within a part, and not over parts.
//   - A dedupe id counts for as long as the parts are the same: a draft with one always goes to
//     the same part of its tenant. The same holds for a source.
//
// docs/GUARANTEES.md has each promise, and leads to its tests.
//
// # The wrinkle
//
// A tenant all of whose parts are down cannot write.
//
// A Cluster stops all slots while one has no master, unless all its nodes have
// cluster-require-full-coverage no. Set that, or a dead master delays all tenants until its replica
// takes over. A fleet goes on by itself.
//
// Each part protects itself from slow tenants with its share of the handlers, C/P of them. So a
// slow tenant gets half of that, at least one handler, in each of its parts while the process has
// messages of other tenants: most often less than in one queue. Have more handlers, over all
// processes, than the slow tenants have parts.
//
// Each part moves entries of a [fairqueue.Legacy] stream into itself, whichever parts their tenants have.
//
// A limit of a tenant is divided among its parts: see [LimitSettings.Set]. A tenant whose messages
// all lie in one part, because the other one is down, has only the share of that part.
//
// A part that is added or drained changes the parts of some tenants. Change [Config.Parts] in all
// processes, readers first. Then set limits again.
//
// # When not to use it
//
// If one server carries the load, and its replica takes over when it dies, a fairqueue is simpler:
// it keeps the order of a tenant and is exactly fair.
package parts
