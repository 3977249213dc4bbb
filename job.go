package millrace

import "context"

// Job is upkeep that idle workers do in slices. Structures provide jobs; a recruiter decides when
// a slice runs.
type Job struct {
	// Name identifies the job in logs and metrics: "ick.retry".
	Name string

	// Slice does one small, bounded piece of the work and reports how much it found. It may
	// run in several processes at once.
	Slice func(ctx context.Context) (Progress, error)
}

// Progress is the result of one slice of a [Job].
type Progress int

// The results of a slice.
const (
	Idle   Progress = iota // nothing was due
	Worked                 // something was due and is done
	More                   // the slice did as much as it may; more is probably due
)

// String returns the name of the progress in lower case.
func (p Progress) String() string {
	switch p {
	case Idle:
		return "idle"
	case Worked:
		return "worked"
	case More:
		return "more"
	default:
		return "unknown"
	}
}

// Enlister is called in idle moments of a worker: after an empty read or a cache hit. It may run a
// slice of a [Job].
type Enlister interface {
	Enlist(ctx context.Context)
}
