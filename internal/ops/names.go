package ops

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
)

// OneLease is a lease. It and the following have no value of their own.
type OneLease = Named[*lease.Locker]

// OneHash is a hash of a namespace.
type OneHash = Named[*expiry.Hashes]

// OneCounter is a counter on its servers.
type OneCounter = Named[*scatter.Scatter]

// OnePinned is a pinned value of a namespace.
type OnePinned = Named[*pinned.Keys]

// Named is a structure by its name, and what finds it.
type Named[S any] struct {
	Of   S
	Name string
}

// Names returns the names of a list that keep selects, or all if it is nil, sorted by their bytes;
// never nil. With an error and something missing, they are of use.
func Names(list iter.Seq2[string, error], keep func(name string) bool) (names []jsontype.Text, missing Incomplete, err error) {
	names = []jsontype.Text{}
	for name, failed := range list {
		switch {
		case failed != nil:
			err = failed
		case keep == nil || keep(name):
			names = append(names, jsontype.Text(name))
		}
	}
	if part, ok := errors.AsType[*millrace.Error](err); ok && errors.Is(err, millrace.ErrPartial) {
		missing = Incomplete{part.Message}
	}
	slices.Sort(names)
	return names, missing, err
}

// Incomplete describes the missing parts of a list.
type Incomplete struct {
	Incomplete string `json:"incomplete,omitempty" doc:"What could not be read because servers did not answer. Absent if the list is complete." example:"5 of 16 parts of the registry could not be read"`
}

// parsedNames yields what an object in a request has by name, in the order of their texts: a name that is not UTF-8 is
// there as the text of its base64 form. It ends with an error if a name is invalid, or there twice.
func parsedNames[V any](place string, object map[string]V, failed *error) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		seen := make(map[jsontype.Text]bool, len(object))
		for _, given := range slices.Sorted(maps.Keys(object)) {
			name, err := jsontype.ParseText(given)
			if err == nil && seen[name] {
				err = ErrRequest.Errorf("%s has %.40q twice, as text and in its base64 form", place, name)
			}
			if err != nil {
				*failed = err
				return
			}
			seen[name] = true
			if !yield(string(name), object[given]) {
				return
			}
		}
	}
}
