package document

import (
	"errors"

	"github.com/millrace/millrace"
)

// Incomplete describes the missing parts of a list.
type Incomplete struct {
	Incomplete string `json:"incomplete,omitempty" doc:"What could not be read because servers did not answer. Absent if the list is complete." example:"5 of 16 parts of the registry could not be read"`
}

// OfList describes the missing parts of a list that ended with an error, and reports whether
// the list is still useful.
func OfList(err error) (i Incomplete, ok bool) {
	part, ok := errors.AsType[*millrace.Error](err)
	switch {
	case err == nil:
		return i, true
	case !ok || !errors.Is(err, millrace.ErrPartial):
		return i, false
	}
	return Incomplete{part.Message}, true
}
