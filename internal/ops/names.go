package ops

import (
	"errors"
	"iter"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/scatter"
)

// Structures that have no value of their own.
type (
	OneLease   = Named[*lease.Locker]    // a lease
	OneHash    = Named[*expiry.Hashes]   // a hash of a namespace
	OneCounter = Named[*scatter.Scatter] // a counter on its servers
)

// Named is a structure by its name, and what finds it.
type Named[S any] struct {
	Of   S
	Name string
}

// Names returns the names of a list that keep wants, sorted by their bytes; never nil. With an
// error, they are of use if it says what is missing.
func Names(list iter.Seq2[string, error], keep func(name string) bool) (names []jsontype.Text, missing Incomplete, err error) {
	names = []jsontype.Text{}
	for name, failed := range list {
		switch {
		case failed != nil:
			err = failed
		case keep(name):
			names = append(names, jsontype.Text(name))
		}
	}
	missing, _ = OfList(err)
	slices.Sort(names)
	return names, missing, err
}

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
