// Package queuestats has the figures of a queue as plain data.
//
// # The problem
//
// Programs that show, judge or export a queue's figures need their types, and not the queue: its scripts, its connections and
// its consumers.
//
// # The mechanism
//
// [Stats] is the state of a queue at one moment, with its tenants as [Flow] and its consumers as [Reader]. A queue of package
// fairqueue reads it, and names it fairqueue.Stats. Nothing here talks to Redis.
//
//	fairqueue.Queue ── Stats ──▶ queuestats.Stats ──▶ queuemetrics, pages, the command
//
// # Guarantees
//
// The names of [Counters] in JSON are a contract of the service and of the command.
//
// # The wrinkle
//
// The queue reads one figure after the other, so a message that moves meanwhile may be left out: see fairqueue.Queue.Stats.
//
// # When not to use it
//
// A program that has a queue needs to import nothing from here: the fields of fairqueue.Stats do.
package queuestats
