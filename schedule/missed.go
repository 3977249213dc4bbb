package schedule

// Missed decides about ticks that no process noticed in time. The zero value is [Once].
type Missed string

// The choices.
const (
	Once Missed = "once" // one message for all missed ticks, that of the last one
	Skip Missed = "skip" // none
	All  Missed = "all"  // a message for each missed tick
)
