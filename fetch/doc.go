// Package fetch keeps expensive values in Redis until their time, and has each
// computed once, however many goroutines and processes ask for it.
//
// # The problem
//
// A cache that is asked, found empty and filled by whoever found it so works until
// many ask at once. Then a popular value runs out and a hundred requests compute
// it: a herd, at the very moment at which what they compute it from is busiest.
// The usual cures have faults of their own.
//
//   - A single flight in the process helps one process, and if it runs under the
//     context of the first caller, that caller's hanging up fails all the others.
//   - A lock in a key with a TTL is evicted when memory is short, and so is the
//     value, which may have taken a minute to compute.
//   - A cache that is down counts as one that is empty, and the herd is complete.
//   - What cannot be computed is tried by everybody in turn, and so helps the database
//     that is in trouble to stay there.
//   - What was stored together runs out together.
//   - A value is computed, changed at its source and forgotten, in this order, and
//     then stored: old, and for its full time.
//
// # The mechanism
//
// Values lie in a namespace of package expiry: nothing evicts them before their
// time. Whoever computes one holds a lease for it, see package lease, and renews it
// while it does. [Fetch] and [Get] look first, and what they find decides:
//
//	           ┌ fresh ── one that is drawn computes it beside ───▶ Hit
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
// The life of a value, by the server's clock alone:
//
//	stored ── TTL, less up to a tenth ──▶ old ─── Stale ───▶ gone
//	         fresh    the nearer the end,       given while
//	                  the likelier a reader     one recomputes
//	                  has it computed anew
//
// Readers are drawn as work stealing recruits them: by a random number, without anything
// that is shared. What is drawn depends on how long the last load took, so that a value
// that is read all the time is renewed about as long before its end as that takes, and one
// that is hardly read is not.
//
// Whatever is behind the first look is one flight a key and process: those who come
// later join it, and are told [Waited] where the first is told [Miss]; those who
// found an old value do not join but take that. The flight has a context of its own,
// with the first caller's values and without its end. A caller whose context ends
// returns at once. If it was the last, a flight that still waits is over, and one
// that computes goes on: its value is kept.
//
// # What is guaranteed
//
//   - Over all goroutines and processes that reach one Redis, one computation of a
//     key runs at a time, as long as its holder keeps the lease. A holder that dies
//     is replaced after five seconds at most.
//   - A value is given as fresh for nine tenths of TTL at least, see [Config].Jitter, and
//     for TTL at most, and as old for Stale more, no longer, whatever the clocks of clients
//     say. Those two are stored with the value, so
//     processes with different settings agree. Redis keeps the value for that time
//     under noeviction and every volatile-* policy.
//   - A cancelled caller fails nobody else. A load that panics is an error to those
//     who wait for it, and the process lives.
//   - A load that fails gives the old value while there is one, and its error to all who
//     wait for it otherwise: in other processes as [ErrFailed]. Nobody tries again for
//     [Config].Errors. That there is none is remembered for [Config].Negative.
//   - A computation that lost its lease gives its value to those who wait for it,
//     but keeps nothing: it does not store what it has when it knows of the loss,
//     and takes back what it stored when it hears of it on giving up the lease.
//     [Cache.Forget] takes the lease from whoever computes for that reason.
//   - While Redis does not answer, callers do not fail for it: each process
//     computes by itself, one computation a key and [Config].Concurrency in all, and
//     remembers the values and errors of the keys that were used last. It computes a key
//     once in [Config].Away, and one whose load fails once in [Config].Errors, however
//     many calls there are; others have the last value or the error meanwhile. It asks
//     Redis again once a second. On a Cluster that is so for each server, and the values
//     and leases on others are used. When Redis is full, the same, save that what is
//     stored is found.
//
// # The wrinkle
//
// A lease makes one of many, not exactly one. A process that is paused for longer
// than its lease goes on computing when it wakes up, so a load must do no harm when
// it runs twice. Between storing too late and taking back, a moment, others may see
// the value that is taken back.
//
// Of those who come while a value is old, one waits for the new one: the one that
// computes it. With a short Stale and few callers nobody is given old values; with
// many it is one in a great many that waits.
//
// A value is encoded even for the one who computed it, so that everybody gets the
// same and nobody shares memory: as JSON, or as it is if T is []byte or string.
// What a new version of a program cannot decode, it computes again and
// overwrites; a field that it added is its zero value. Let the name of the cache
// have a version, "documents-v2", when that is not good enough.
//
// A load may fetch other keys. One that fetches its own, directly or not, waits for
// itself until its time is over. A process waits for all keys that others compute over one
// connection, and each computation leaves about two hundred bytes of its lease for a
// minute.
//
// A process that remembers a value does not hear that another one has called Forget while
// Redis does not answer: it gives the value for Away at most. An old value whose load
// failed is stored again with the time it had left, and so may live longer by as long as
// that call takes.
//
// # When not to use it
//
// For values that are cheap: a miss costs five round trips and a hit one, more than
// many a query. For values that must never be old: nothing here knows that the
// source has changed until Forget is called. For values of megabytes: each hit
// brings the whole.
package fetch
