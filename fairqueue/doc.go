// Package fairqueue provides queues for many tenants in Redis, in which neither a flood nor
// slow handlers of one tenant delay the others.
//
// # The problem
//
// In one queue for all, a tenant that writes ten thousand messages makes all others wait for
// them, and a tenant whose messages take five seconds each occupies every worker. A queue for
// each tenant is fair, but thousands of queues, most of them empty, take long to poll, and must
// be created, watched and removed.
//
// # The mechanism
//
// Every message belongs to a flow, and flows take turns. A flow is a tenant, unless
// [Config.Streams] is set. The queue has a virtual time. Each flow with messages has a tag: the
// virtual time of its next turn. A read takes the flow with the lowest tag, sets the virtual time
// to this tag, and gives the flow a tag one turn later.
//
//	flow     waiting        tag
//	acme     9,998 messages 17 ──▶ read ──▶ virtual time 17, acme's tag 18
//	globex   1 message      18
//	initech  3 messages     18
//
// So each flow has one delivery per round, however many messages it has. A new flow is served
// within the round. Messages that were cancelled or have expired cost their flow no turn, and
// unused turns are not saved. This is self-clocked fair queueing (Golestani, 1994), with tags on
// the heads of flows only.
//
// A message may cost more than others: tokens of a model, rows of an export. See [Draft].Cost. Then
// a turn is as long as the message costs, so that flows have the same sum of costs delivered, and not
// the same number of messages. A flow pays before the delivery, so that a tenant with one message
// at a time pays, too.
//
// With Streams, flows are streams. Each tenant has a few of them, its shuffle shard, and a write
// goes to the one in which the fewest messages wait. That bounds the number of flows when others
// choose the names of tenants. The idea is that of Replicate's shuffle queues; see package
// shuffleshard.
//
// The life of a message:
//
//	Write ──▶ waiting ──▶ in flight ──┬─ Ack ──▶ removed
//	  │         ▲  ▲         │        ├─ Nack ─▶ delayed, or waiting again
//	  │ Delay   │  │         │        ├─ too many attempts, NoRetry ──▶ dead
//	  ▼         │  └─────────┘        └─ Cancel ──▶ removed
//	delayed ────┘   visibility
//	        delay   ended            waiting ── TTL, Cancel ──▶ removed
//	        ended, Retry             dead ── Redrive ──▶ waiting;  Purge ──▶ removed
//
// A message has an id, the server's clock in microseconds, which stays the same. A message that
// comes again keeps its position. Each delivery has a receipt. Ack, Nack and Extend take the
// receipt, so a late reader cannot settle a message that another reader has.
//
// # Slow tenants
//
// Each [Queue.Consume] reports how many handlers it has, before it gets its first message. So does
// a [Queue.Read] that names its worker ([ReadConfig].Worker). A tenant may start another message if
// it has none in flight, or fewer than handlers are free, or if its handlers took 20 ms or less
// recently, or if no other tenant had a message for a minute and none waits. So one slow tenant gets
// half of all handlers, two get a third each, and the others find a free one. A Read without a name
// is neither limited nor counted.
//
// # Messages from a source
//
// A table, a log or a file that feeds a queue must know which messages it has written, across
// crashes and for longer than [Config.DedupeWindow]. Such a source numbers its messages 1, 2, 3
// and so on, durably, before it writes the first of them; see [Draft].Source. The queue stores the
// number with the message in one step, so a repeat by any process at any time writes nothing. If the
// server loses its last writes, as at a failover, the number goes back with the messages:
// [Sources.Position] says what to write again. It is one field of the record for each source.
// examples/outbox does so from PostgreSQL.
//
// # Limits
//
// A tenant can have limits ([OwnLimits]): a weight, deliveries at once, a share of the handlers, a
// rate, messages that wait, a pause. Each that is not set for it follows a default. Any process
// changes them at any time ([Queue.Limits]), and handlers can have their tenant pause ([Throttle]).
// A tenant at a limit leaves the order until it may start a message again, so its turns go to
// others and no handler waits for it. It comes back at the present virtual time: nothing is
// saved up.
//
// # Schedules
//
// A schedule ([Schedules.Set]) writes a message at each of its ticks: at intervals, or by a
// calendar in a time zone. It lies in the queue. Any reader notices that a tick is due, computes
// the next one, and writes the message and the new state in one step, if the schedule is still as
// it saw it. There is no leader and no daemon, and each tick has one message.
//
// # Batches
//
// A batch ([Batches.Create]) counts messages that belong together, and when all of them have ended, the queue writes one
// message that says so, with the counts. It is one field of numbers: what ends a message counts it, and the step that ends
// the last one writes the message. So it is written once, and nothing has to look for batches that are done.
//
// # Guarantees
//
//   - At least once: a message is delivered again until it is acknowledged, cancelled,
//     expired or dead. Crashes of readers and lost replies lose none.
//   - In any round, deliveries of two flows with messages differ by at most one; with
//     weights ([OwnLimits].Weight) they are in proportion.
//   - Messages of a flow are delivered first in the order of their priority and then of
//     their writes.
//   - Each call to Redis is applied whole or not at all. After a lost reply the library
//     repeats it and gets the same answer.
//   - A position of a source is written once, and none is left out.
//   - A batch writes the message of its end once: when all its messages have ended, or after 30 days.
//   - A stale receipt changes nothing and is [millrace.ErrStale].
//   - When a message becomes available, one sleeping reader wakes, within about a round trip.
//     If it dies, another one finds the message within a second. An empty queue wakes no reader.
//   - A process that waits sends two commands per second, however many goroutines wait and
//     however many Queues of one name it has on a client.
//   - [Queue.Browse] shows all messages and takes none. [Queue.Search] shows those that match,
//     and [Queue.Failures] counts retries and dead ones by error; both examine a bounded number.
//   - [Queue.Stats] names the 32 tenants that failed last, and why; [Queue.Retry] retries at once.
//   - On a full server, writes fail and change nothing; reading and settling go on.
//   - No call takes the server long: its work is bounded in messages and bytes, whatever the
//     queue holds.
//   - The keys of a queue are a fixed set, so its Redis Cluster slot can move under load.
//   - Time is the server's. A clock that was ahead and went back keeps nothing waiting.
//
// docs/GUARANTEES.md has each promise, and leads to its tests.
//
// # The wrinkle
//
// At least once is not exactly once: a handler whose acknowledgement was lost runs again, so its
// work must be idempotent. Consume may acknowledge a success 20 ms late, with the call that takes the next message, if
// no message waits for that: what a killed process has handled in this time comes again.
//
// A turn is a message, not a time: only handlers of Consume and of named workers are shared by
// time. With one handler in all, nothing protects from slow tenants. A tenant with unknown handler
// times counts as slow, so its first burst after a rest uses half of the handlers. A tenant whose
// messages were quick and then hang can occupy all handlers until the first of them returns;
// [ConsumeConfig].Timeout and MaxRun bound that. The handlers of a killed process count for 15
// seconds.
//
// A stranger that can choose names of tenants can be many tenants, with a turn each. Take a name
// that it cannot choose, such as the number of its contract, or use [Config.Streams]: then there
// are as many turns as streams, whatever the names, but no limits by tenant.
//
// A waiting message takes about 250 bytes besides its body, ten times the overhead of a Redis
// stream.
//
// The end of a visibility takes effect at the next read, or through [Jobs], and so does the tick
// of a schedule. A tick that no process notices for more than a minute is missed.
//
// # When not to use it
//
// When several kinds of readers must each see every message, write to two queues, or use a
// stream. When only the last state counts, and not each event, package ick folds a thousand
// changes into one. When all messages belong to one tenant, a plain stream costs the server
// less.
package fairqueue
