package dashboard

import (
	"slices"

	"github.com/millrace/millrace/internal/survey"
)

// followed is the structure of an open page, through successive Views.
type followed[S any] struct {
	kind  survey.Kind
	name  string
	find  func(v *survey.View) []S
	title func(S) string
	last  S
	seen  bool // a View had it
}

// presence tells whether the numbers of a structure are current.
type presence string

const (
	watched   presence = ""
	unwatched presence = "unwatched" // the survey does not cover it, or cannot read it
	vanished  presence = "vanished"  // it was deleted
)

// follow finds a structure in a View. It reads a structure that the survey does not cover.
func follow[S any](v *survey.View, f followed[S], ask func() (S, error)) (*followed[S], error) {
	if _, how := f.in(v); how == watched {
		return &f, nil
	}
	var err error
	f.last, err = ask()
	return &f, err
}

// in returns the structure from a View, or else its last known state.
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
