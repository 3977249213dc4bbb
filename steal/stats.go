package steal

import "time"

// Stats is what a Recruiter did since it was made, in this process.
type Stats struct {
	// Enlisted estimates how many moments were offered, from a sample of one in
	// 64: of a million to about 1%. Those of one request are one.
	Enlisted uint64

	Jobs []JobStats // in the order in which they were installed
}

// JobStats is what became of the recruits of one job. A recruit is counted when
// it has ended, so Recruited() = Worked + Idle + Aborted.Sum() always.
type JobStats struct {
	Name string
	Rate float64 // the chance at each moment

	Drawn   uint64 // recruits that an enlistment drew
	Floored uint64 // recruits because the job had not run for too long

	Worked  uint64 // recruits that found something to do
	Idle    uint64 // recruits for which nothing was due
	Aborted Aborts // recruits that did not run, or not to their end

	Rounds     uint64    // slices that returned, over all recruits
	Running    int       // recruits that have a slot now
	LastWorked time.Time // the end of the last recruit that worked; zero before
}

// Recruited returns how many recruits have ended.
func (s JobStats) Recruited() uint64 { return s.Drawn + s.Floored }

// Aborts counts recruits by the reason of their abort.
type Aborts struct {
	Error   uint64 // a slice returned an error
	Timeout uint64 // a slice failed because its time was over
	Panic   uint64 // a slice panicked
	Busy    uint64 // all slots were taken
	Breaker uint64 // the job kept failing and is left alone
}

// Sum returns the aborts for all reasons.
func (a Aborts) Sum() uint64 { return a.Error + a.Timeout + a.Panic + a.Busy + a.Breaker }

// Stats returns what the recruiter did so far.
func (r *Recruiter) Stats() Stats {
	s := Stats{Enlisted: r.enlisted.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.table.Load().jobs {
		one := j.stats
		one.Name, one.Rate, one.Running = j.Name, j.rate, j.running
		s.Jobs = append(s.Jobs, one)
	}
	return s
}

// count adds a recruit that has ended.
func (s *JobStats) count(end Recruited, now time.Time) {
	if end.Via == ViaFloor {
		s.Floored++
	} else {
		s.Drawn++
	}
	s.Rounds += uint64(end.Rounds)
	switch end.Outcome {
	case Worked:
		s.Worked++
		s.LastWorked = now
	case Idle:
		s.Idle++
	case Failed:
		s.Aborted.Error++
	case TimedOut:
		s.Aborted.Timeout++
	case Panicked:
		s.Aborted.Panic++
	case Busy:
		s.Aborted.Busy++
	case Broken:
		s.Aborted.Breaker++
	case outcomes: // their number, and none of them
	}
}
