package steal

import (
	"time"

	"github.com/millrace/millrace"
)

// Outcomes of a recruit: see [millrace.Recruited]. All but Worked and Idle are aborts.
const (
	Worked   = "worked"  // a slice found something to do
	Idle     = "idle"    // nothing was due
	Failed   = "error"   // a slice returned an error
	TimedOut = "timeout" // a slice failed because its budget was spent
	Panicked = "panic"   // a slice panicked
	Busy     = "busy"    // no slot was free, so no slice ran
	Broken   = "breaker" // the job failed too often in a row, so no slice ran
)

// ranAndFailed reports whether this is the outcome of a slice that ran and failed.
func ranAndFailed(outcome string) bool {
	return outcome == Failed || outcome == TimedOut || outcome == Panicked
}

// Stats counts the work of a Recruiter since it was made, in this process.
type Stats struct {
	// Enlisted estimates the number of moments offered, from a sample of 1 in 64. The
	// moments of one request count once.
	Enlisted uint64

	Jobs []JobStats // in the order of installation
}

// JobStats counts the recruits of one job. A recruit is counted when it has ended, so
// Drawn + Floored = Worked + Idle + Aborted always.
type JobStats struct {
	Name string

	Worked  int64 // recruits that found something to do
	Idle    int64 // recruits for which nothing was due
	Aborted int64 // those of the next five together

	Failed, TimedOut, Panicked, Busy, Broken int64 // by outcome

	Rounds     int64     // slices that returned, over all recruits
	LastWorked time.Time // the end of the last recruit that worked; zero before

	// The rest is known of this process only. It is zero in totals of all processes.

	Rate    float64 // the chance at each moment
	Drawn   int64   // recruits that an enlistment drew
	Floored int64   // recruits because the job was overdue
	Running int     // recruits that run now
	Hanging int     // those of them that run for more than twice the budget
}

// Recruited returns the number of recruits that have ended.
func (s JobStats) Recruited() int64 { return s.Worked + s.Idle + s.Aborted }

// Stats returns the counts so far.
func (r *Recruiter) Stats() Stats {
	s := Stats{Enlisted: r.enlisted.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.table.Load().jobs {
		stats := j.stats
		stats.Name, stats.Rate, stats.Running, stats.Hanging = j.Name, j.rate, j.running, j.hanging
		s.Jobs = append(s.Jobs, stats)
	}
	return s
}

// count adds a recruit that has ended.
func (s *JobStats) count(end millrace.Recruited, now time.Time) {
	if end.Floor {
		s.Floored++
	} else {
		s.Drawn++
	}
	s.Rounds += int64(end.Rounds)
	switch end.Outcome {
	case Worked:
		s.Worked++
		s.LastWorked = now
		return
	case Idle:
		s.Idle++
		return
	case Failed:
		s.Failed++
	case TimedOut:
		s.TimedOut++
	case Panicked:
		s.Panicked++
	case Busy:
		s.Busy++
	case Broken:
		s.Broken++
	}
	s.Aborted++
}
