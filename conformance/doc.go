// Package conformance holds every structure to the same behaviour on every kind
// of Redis. It has tests only.
//
// # The problem
//
// A structure is written and tested against one server. It is run on a Cluster,
// behind Sentinels, on a server that is restarted at night; there a key may lie
// in another slot, a SCAN may see one master of three, a connection may lead to
// a server that is no master any more. Tests that are written again for each of
// them drift apart, and soon it is unclear which promise holds where.
//
// # The idea
//
// A behaviour is written once and told nothing of the servers below:
//
//	                 server      sentinel     cluster      fleet       the next engine
//	               ┌───────────┬────────────┬────────────┬───────────┬ ─ ─ ─
//	ick            │ the same behaviours, of which the
//	lease          │ last ones are storms: a server dies
//	the next one   │ under load
//	               └ ─ ─ ─
//
// An engine is a way to run Redis: one server with an append-only file, whose clients
// may do what docs/SECURITY.md gives them, and no more; a master with two replicas
// behind three Sentinels; a Cluster of three masters with a replica each; a fleet of
// three partitions with a replica each. It starts once, and all behaviours keep apart by
// name. They see it as the interface running: a new client, which server is home to a
// key, and a disturbance that takes that server away. The engine chooses the
// disturbance: a SIGKILL and a restart, or a SIGKILL and the failover that follows.
//
// A structure is a table of behaviours. One more structure, or one more engine,
// is one more file and a line in the table structures or engines. A failure names
// all three, and can be run alone:
//
//	go test ./conformance -run 'Test/cluster/ick/reserve_is_stable'
//
// # Storms
//
// A storm puts a structure under load, disturbs the engine in the middle, and
// looks whether all goes on by itself: the clients are not told, no consumer
// ends, nothing is made anew.
//
// A storm may ask less than it seems. Replication is asynchronous, and a master
// that is killed takes along acknowledged writes that it had not sent yet. No client
// can change that, so a test that forbids it fails at random, and one that
// tolerates loss in general finds nothing. Storms draw the line exactly:
//
//	load  ────────────────────────────────────────────────────────▶ time
//	           │ secure            ✕ disturb          │ back
//	  must be  │   all is sent     │                  │  must be
//	  kept     │   to replicas     │  may be lost     │  kept
//
// Just before the disturbance a storm remembers the acknowledged writes so far, and has
// the engine make sure that every replica holds them. They must be there afterwards,
// on every engine. So must writes begun after the disturbance was over. Writes
// acknowledged in between, while the load goes on all the time, may be lost, and the
// load treats them as programs have to:
//
//   - A producer of dirty marks keeps an outbox. When it hears of a failover, it
//     marks again whatever it marked since it was last sure. Then every mark that
//     was ever acknowledged must be handed out.
//   - A holder of a lease that was acquired in between may be one of two. Every
//     other is alone until its deadline; and at all times fences are given out
//     once, and grow.
//   - A value set in between to live for a time may be gone before it. No value
//     that was ever set is there after its time.
//   - A caller that fetches a value that is computed always gets it. Values are
//     computed by one at a time if their lease was not taken in between.
//   - An identifier that was added to a tracker in between may be missing until a
//     pass has seen its row.
//
// With the append-only file of the server engine nothing may be lost at all, and
// the storms ask no more of it: they are the same.
//
// # The wrinkle
//
// An engine does not show all that can happen to it. Two masters that take writes, lost power,
// eviction, mistakes of operators and clocks that are set are in TestLoss, which counts what each
// of them loses, and writes docs/LOSS.md.
package conformance
