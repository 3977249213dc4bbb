package ops

import (
	"iter"
	"slices"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/scatter"
)

// A lease, a hash of a namespace and a counter on its servers: structures that have no value of their own.
type (
	OneLease   = Named[*lease.Locker]
	OneHash    = Named[*expiry.Hashes]
	OneCounter = Named[*scatter.Scatter]
)

// Named is a structure by its name, and what finds it.
type Named[S any] struct {
	Of   S
	Name string
}

// Names returns the names of a list that keep wants, sorted by their bytes; never nil. With an
// error, they are of use if it says what is missing.
func Names(list iter.Seq2[string, error], keep func(name string) bool) (names []document.Text, missing document.Incomplete, err error) {
	names = []document.Text{}
	for name, failed := range list {
		switch {
		case failed != nil:
			err = failed
		case keep(name):
			names = append(names, document.Text(name))
		}
	}
	missing, _ = document.OfList(err)
	slices.Sort(names)
	return names, missing, err
}
