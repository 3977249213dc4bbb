package steal

import (
	"context"
	"time"
)

// Outcome is how a recruit ended.
type Outcome int

// How a recruit may end. All but the first two are aborts.
const (
	Worked   Outcome = iota // a slice found something to do
	Idle                    // nothing was due
	Failed                  // a slice returned an error
	TimedOut                // a slice failed because its time was over
	Panicked                // a slice panicked
	Busy                    // all slots were taken, so no slice ran
	Broken                  // the job kept failing and is left alone, so no slice ran
	outcomes
)

// String returns worked, idle, or the reason of the abort: error, timeout,
// panic, busy, breaker.
func (o Outcome) String() string {
	names := [outcomes]string{"worked", "idle", "error", "timeout", "panic", "busy", "breaker"}
	if o < 0 || o >= outcomes {
		return "unknown"
	}
	return names[o]
}

// Aborted reports whether the recruit did not run to its end.
func (o Outcome) Aborted() bool { return o > Idle }

// ran reports whether a slice ran.
func (o Outcome) ran() bool { return o < Busy }

// failed reports whether a slice ran and went wrong.
func (o Outcome) failed() bool { return o.Aborted() && o.ran() }

// Via is what a recruit came from.
type Via int

// What a recruit may come from.
const (
	ViaDraw  Via = iota // an enlistment drew the job
	ViaFloor            // the job had not run for too long
)

// String returns draw or floor.
func (v Via) String() string {
	if v == ViaFloor {
		return "floor"
	}
	return "draw"
}

// RecruitHook is a [millrace.Hook] that is told how each recruit ended.
type RecruitHook interface {
	OnRecruit(ctx context.Context, end Recruited)
}

// Recruited is how one recruit ended.
type Recruited struct {
	Job     string // the job's name
	Via     Via
	Outcome Outcome
	Rounds  int           // slices that returned; 0 for Busy and Broken
	Took    time.Duration // by all rounds together
	Err     error         // of Failed, TimedOut and Panicked
}
