// Package schedule says at which instants a schedule ticks. Package fairqueue keeps schedules: a
// queue writes a message at each tick of each of its schedules.
//
// # The problem
//
// Processes that share a schedule, without a leader, must compute the same ticks, also when
// clocks are put forward and back. So a tick must depend on the schedule and the last tick
// only, not on the clock, the time zone or the start of a process.
//
// # The mechanism
//
// A [Spec] is an interval ([Every]) or a calendar in a time zone ([NewCalendar]). [Spec.Next] is
// a function: the first tick after an instant. Intervals are counted from the Unix epoch, so a
// process that starts later ticks at the same instants.
//
// Package schedule/cron makes Specs of cron expressions.
//
// # Clocks that are put forward and back
//
// A calendar that restricts the hours follows the clock on the wall: each wall time ticks once. A
// calendar for all hours follows the time that passes.
//
//	                          hours restricted            all hours
//	                          30 2 * * *                  30 * * * *
//	02:00 becomes 03:00       one tick, at 03:00          no tick between 01:30 and 03:30
//	03:00 becomes 02:00       one tick, the first 02:30   a tick at both 02:30
//
// Several ticks in a skipped hour become one, at its end.
//
// # The wrinkle
//
// Every(24 * time.Hour) ticks at midnight UTC, whatever the local time. Use a calendar for a time
// of day.
//
// When governments change a time zone, processes with old and new tables disagree until all are
// updated. Package fairqueue still writes one message a tick: the first process decides.
//
// # When not to use it
//
// For one message at a later time, write it with fairqueue.Draft.Delay.
package schedule
