// Package fetch keeps expensive values in Redis until they expire, and computes each once,
// however many goroutines and processes ask for it.
//
// # The problem
//
// When a popular value expires, a hundred requests compute it at the same time: a stampede, when
// the source is busiest. The usual remedies have faults.
//
//   - A single flight helps one process only, and if it uses the context of the first caller, the
//     end of that caller fails all others.
//   - A lock in a key with a TTL may be evicted when memory is short, and so may the value.
//   - A cache that is down looks like an empty one.
//   - Every caller retries a failing computation, which keeps an overloaded database overloaded.
//   - Values stored together expire together.
//   - A value that is deleted during its computation, because it changed at its source, is stored
//     old, for its full TTL.
//
// # The mechanism
//
// Values are in a namespace of package pinned: nothing evicts them before their
// time. A computation holds a lease on its key, see package lease, and renews it. [Get] looks first,
// and the result decides:
//
//	           ┌ fresh ── a random reader refreshes it early ─────▶ Hit
//	           ├ known that there is none ────────────────────────▶ Negative
//	           │
//	           ├ old ────── is the lease free? ── no ─────────────▶ Stale
//	Get: look ─┤                 └ yes: look again ┬ fresh ───────▶ Hit
//	           │                                   └ load ┬───────▶ Miss
//	           │                                          └ fails ▶ Stale
//	           │
//	           ├ nothing ── wait for the lease: look again ┬ there ▶ Waited
//	           │                                   └ load ┬───────▶ Miss
//	           │                                          └ fails ▶ Failed
//	           │
//	           ├ a load failed a moment ago ──────────────────────▶ Stale or Failed
//	           │
//	           └ Redis does not answer: remembered? ┬ a moment ago ▶ Remembered
//	                                                └ load ┬───────▶ Bypass
//	                                                       └ fails ▶ Remembered or Failed
//
// The last look before a load claims the key, in the same call, and the value is stored with the
// claim: see pinned.Keys.Claim. [Cache.Forget] removes the value and the claim, and a later claim
// replaces an earlier one. So Redis itself refuses a value that is out of date, however late it
// comes, without comparing clocks or fences. The lease only saves computations.
//
//	load A   claim A ───── computes ──────────── store with A: refused
//	Forget               removes value and claim
//	load B                          claim B ── computes ── store with B
//
// The life of a value, by the server's clock alone:
//
//	stored ── TTL, less up to a tenth ──▶ old ─── Stale ───▶ gone
//	         fresh    the nearer the end,       returned while
//	                  the likelier a reader     one recomputes
//	                  refreshes it
//
// A reader refreshes a value early at random. The probability depends on the duration of the last
// load, so that a value that is read all the time is refreshed about that long before its end.
//
// Everything after the first look is one flight per key and process. Later callers join it; their
// outcome is [Waited] where that of the first is [Miss]. Callers that found an old value return
// that instead. The flight has its own context, with the first caller's values. A caller whose
// context ends returns at once. After the last one, a flight that waits ends, and one that
// computes continues: its value is stored.
//
// # Guarantees
//
//   - Over all goroutines and processes on one Redis, one computation of a key runs at a time, as
//     long as its holder keeps the lease. A dead holder is replaced within five seconds.
//   - A value is fresh for nine tenths of TTL to TTL, see [Config].Jitter, and old for Stale more,
//     whatever the clients' clocks. Both are stored with the value, so processes with different
//     settings agree. Redis keeps it for that time under noeviction and every volatile-* policy.
//   - A cancelled caller does not fail others. A load that panics is an error for its callers,
//     and the process lives.
//   - A failed load returns the old value while there is one, otherwise its error to all its
//     callers, in other processes as [ErrFailed]. No caller tries again for [Config].Errors.
//     That there is no value is remembered for [Config].Negative.
//   - A value is stored only if its key was not forgotten, and claimed by no other computation,
//     since its computation began; also if its process lost its lease, was suspended, or is killed.
//   - A call that begins after [Cache.Forget] has returned gets no value that was computed before:
//     neither from Redis nor from a computation that its own process began before.
//   - While Redis does not answer, callers do not fail for it: each process computes by itself,
//     one computation per key and [Config].Concurrency in all, and remembers the values and
//     errors of recently used keys. It computes a key once in [Config].Away, and a failing one
//     once in [Config].Errors, whatever the number of calls; the others get the last value or
//     the error. It asks Redis again once a second. On a Cluster this holds for each server, and
//     values and leases on the others are used. A full Redis is treated the same, except that
//     stored values are found.
//
// # The wrinkle
//
// A lease does not guarantee exactly one computation: a process that is paused for longer than its
// lease continues when it wakes up, so a load must do no harm when it runs twice.
//
// The guarantees are those of one server that keeps its data: after a failover that loses the
// newest writes, a forgotten value may be back until its time is over, and a claim may be lost; then
// the value is computed again.
//
// Of the callers that find an old value, the one that computes the new one waits.
//
// A value is encoded even for the caller that computed it, so that callers share no memory: as
// JSON, or as it is if T is []byte or string. A value that a new version of a program cannot decode
// is computed again; a new field has its zero value. If that is not enough, put a version into the
// name of the cache: "documents-v2".
//
// A load may fetch other keys. A load that fetches its own key, directly or not, waits for itself
// until its timeout. A process waits for all keys that others compute over one connection, and
// each computation leaves about two hundred bytes of its lease for a minute.
//
// While Redis does not answer, a process does not learn that another one called Forget: it
// returns the remembered value for at most Away. An old value whose load failed is stored again
// with its remaining time, and may live longer by the duration of that call.
//
// # When not to use it
//
// For cheap values: a miss costs five round trips and a hit one, more than many a query. For
// values that must never be old: the cache does not know that the source changed until Forget is
// called. For values of megabytes: each hit transfers all of it.
package fetch
