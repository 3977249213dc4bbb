package millrace

import "context"

// Job is a piece of upkeep that idle workers do in slices. Structures provide jobs; a
// recruiter decides when a slice runs.
type Job struct {
	// Name says what the job keeps up, for logs and metrics: "ick.parked".
	Name string

	// Slice does one small, bounded piece of the work and reports how much it
	// found. It may run in several processes at once.
	Slice func(ctx context.Context) (Progress, error)
}

// Progress is what one slice of a [Job] found to do.
type Progress int

// What a slice may have found.
const (
	Idle   Progress = iota // nothing was due
	Worked                 // something was due and is done
	Full                   // as much as one slice may do; more is probably due
)

// String returns the name of the progress in lower case.
func (p Progress) String() string {
	switch p {
	case Idle:
		return "idle"
	case Worked:
		return "worked"
	case Full:
		return "full"
	default:
		return "unknown"
	}
}

// Enlister is called in idle moments of a worker: after an empty read or a cache hit. It
// may run a slice of some [Job]. Structures call it when the caller's own work is done.
type Enlister interface {
	Enlist(ctx context.Context)
}
