package document

import (
	"errors"

	"github.com/millrace/millrace"
)

// Incomplete says of a list that it is not whole.
type Incomplete struct {
	Incomplete string `json:"incomplete,omitempty" doc:"What could not be read, because servers did not answer. Absent when the list is whole." example:"5 of 16 parts of the registry could not be read"`
}

// OfList returns what is missing from a list that ended with an error. It is ok if the
// list is of use all the same.
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
