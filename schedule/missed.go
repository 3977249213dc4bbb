package schedule

import "github.com/millrace/millrace"

// Missed decides about ticks that no process noticed in time.
type Missed int

// The choices.
const (
	// Once makes one message for all missed ticks, that of the last one. It is the default.
	Once Missed = iota

	// Skip makes none.
	Skip

	// All makes a message for each missed tick.
	All
)

// words are the texts of the choices.
var words = [...]string{Once: "once", Skip: "skip", All: "all"}

// String returns once, skip or all.
func (m Missed) String() string {
	if m < 0 || int(m) >= len(words) {
		return ""
	}
	return words[m]
}

// ParseMissed reads the text of [Missed.String]. "" is [Once]. Errors:
// [millrace.ErrBadArgument].
func ParseMissed(text string) (Missed, error) {
	for m, word := range words {
		if text == word {
			return Missed(m), nil
		}
	}
	if text == "" {
		return Once, nil
	}
	return Once, millrace.ErrBadArgument.Errorf("invalid policy for missed ticks %q: once, skip or all", text)
}
