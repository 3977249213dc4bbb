package dashboard

import (
	"slices"

	"github.com/millrace/millrace/internal/survey"
)

// followed is a structure whose page is open, through one View after the other.
type followed[S any] struct {
	kind  survey.Kind
	name  string
	find  func(v *survey.View) []S
	title func(S) string
	last  S
	seen  bool // a View had it
}

// presence says whether a structure's numbers are present ones.
type presence string

const (
	watched   presence = ""
	unwatched presence = "unwatched" // the survey does not look at it, or cannot
	vanished  presence = "vanished"  // it is no more
)

// follow finds a structure in a View. One that the survey has not found yet, or does
// not look at since there are so many, is asked by itself.
func follow[S any](v *survey.View, f followed[S], ask func() (S, error)) (*followed[S], error) {
	if _, how := f.in(v); how == watched {
		return &f, nil
	}
	var err error
	f.last, err = ask()
	return &f, err
}

// in returns the structure as a View has it, or as it was when one had it.
func (f *followed[S]) in(v *survey.View) (S, presence) {
	list := f.find(v)
	if i := slices.IndexFunc(list, func(s S) bool { return f.title(s) == f.name }); i >= 0 {
		f.last, f.seen = list[i], true
		return f.last, watched
	}
	failed := slices.ContainsFunc(v.Troubles, func(t survey.Trouble) bool {
		return t.Kind == f.kind && (t.Name == f.name || t.Name == "")
	})
	if f.seen && !failed {
		return f.last, vanished
	}
	return f.last, unwatched
}
