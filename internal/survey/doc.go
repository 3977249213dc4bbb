// Package survey reads all structures of a Redis regularly and keeps the last hour of their
// numbers in memory.
//
// # The problem
//
// Pages with live numbers, numbers that change each second, a scrape by Prometheus: each
// needs the Stats of all structures at its own time. If each asked Redis, ten open pages
// would ask ten times, and none would have a history.
//
// # The mechanism
//
// One goroutine asks, and all others read its results:
//
//	            names, seldom          ┌─▶ View, Watch ─▶ pages
//	Redis ──┬─▶ registry ─────┐        │
//	        │                 ▼        ├─▶ Series ──────▶ charts
//	        └─▶ Stats ──▶ survey ──▶ View
//	            each 5 s, or 1 s       └─▶ Collector ───▶ Prometheus
//
// A survey reads the Stats of all structures, at most eight at a time, and makes an immutable
// [View] of them. Surveys are 5 seconds apart, or 1 second during a Watch, and never closer than twice the time that one takes, so they load Redis at most half of the time. Two
// surveys never overlap.
//
// Names come from the List functions of the structures, which read the registry: the cost is
// O(structures), not O(keys). Names are listed at the start, and again after a pause of 50
// times the duration of a listing, at least ten seconds: at most 2% of the time. A new
// structure appears after that pause, or after [Survey.Refresh].
//
// A program that looks at its own times, such as the live view of the command, calls
// [Survey.Poll] and [Survey.KeepListing] instead of Run.
//
// # History
//
// The survey keeps a sample of each structure every 5 seconds, 720 samples, which is an hour.
// Counters become rates when a [Series] is read; a counter that went back, as after a Delete,
// has the rate 0 for that step.
//
// Memory is bounded: a survey covers at most 200 structures of a kind, the first by name, and
// [View.LeftOut] counts the others. A sample takes 8 bytes for its time and 8 for each of up
// to ten numbers: 64 kB for an hour of a queue, and 31 MB for the largest survey.
//
// # Errors
//
// A structure that cannot be read is in [View.Troubles], and is read last the next time, so
// that it delays no others. If some servers do not list their names, the known names stay, and
// a Trouble of the kind [Names] says so. If no server answers, the View keeps its numbers and
// its time, and [View.Away] has the error: old numbers look old, not empty.
//
// # When not to use it
//
// A program that knows its structures reads their Stats, or uses the collectors of package
// metrics. A Redis with a million dirty lists is surveyed only in part.
//
// It is not below server/internal because the tests of packages conformance and grafana use
// it as well.
package survey
