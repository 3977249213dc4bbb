// Package survey looks at all structures on a Redis, one round after the other, and
// keeps the last hour of it in memory.
//
// # The problem
//
// A page that shows what goes on, numbers that change on it each second, a scrape
// by Prometheus: each wants the Stats of all structures, at its own time. If each
// asked Redis by itself, ten open pages would ask ten times, and nobody would know
// what was a minute ago.
//
// # The mechanism
//
// One goroutine asks, everybody else reads what it saw:
//
//	            names, seldom          ┌─▶ View, Watch ─▶ pages
//	Redis ──┬─▶ registry ─────┐        │
//	        │                 ▼        ├─▶ Series ──────▶ charts
//	        └─▶ Stats ──▶ a look ──▶ View
//	            each 5 s, or 1 s       └─▶ Collector ───▶ Prometheus
//
// A look asks each structure for its Stats, at most eight at a time, and makes of
// the answers a [View], which nobody changes any more. Looks are 5 seconds apart,
// or 1 second while somebody watches, and never closer than twice the time that
// one takes: so the survey asks for half of the time at most, however slow Redis
// is, and no look begins before the last one has ended.
//
// Names are found by the structures' own List functions, which read the registry in
// which each structure is entered, and so take as long as there are structures, whatever
// else is in the same Redis. That is done at the start, and then after a pause of 50 times
// what it took, 30 seconds at least, which is for 2% of the time at most. A new structure
// appears after that pause, or after [Survey.Refresh].
//
// # What is kept
//
// Of each structure a sample each 5 seconds, 720 of them, which is an hour. Counters
// are kept as they are, and become rates when a [Series] is asked for; one that
// went back, as after a Delete, has no rate for that step.
//
// Memory is bounded, because at most 200 structures of a kind are looked at, the
// first by their names; [View.LeftOut] counts the others. A sample takes 8 bytes
// for its time and 8 for each of up to eight numbers, so an hour of a queue takes
// 52 kB, and of all that a survey can hold 29 MB.
//
// # When something cannot be read
//
// A structure that fails is in [View.Troubles], the others are there, and those
// that failed come last in the next look, where they take no time from others.
// When some servers do not tell which names they have, those that were known stay, and a
// Trouble of the kind [Names] says what is missing. When no server answers at all, the View keeps its numbers and its time, and
// [View.Away] says why: numbers that are old look old, and do not look like
// nothing.
//
// # When not to use it
//
// A program that knows its structures asks them: their Stats, or the collectors of
// package metrics. A Redis with a million Icks is surveyed in part, and says so.
package survey
