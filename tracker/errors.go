package tracker

import "github.com/millrace/millrace"

// ErrSource means that the source broke a rule of the [Source] interface. Nothing was
// changed.
var ErrSource = &millrace.Error{
	Code: "bad_source",
	Hint: "Correct the Source: see the rules of its interface.",
}
