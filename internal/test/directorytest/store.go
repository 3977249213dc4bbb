package directorytest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// values: a put replaces all its values if the first one is as it was read, or none, and a repeat
// succeeds.
func values(t *testing.T, d *directory.Directory) {
	s, ctx := d.Store, t.Context()
	get := func(want ...string) (revisions []string) {
		t.Helper()
		got, err := s.Get(ctx, directory.Present, "a", "b", "none")
		if err != nil || len(got) != 3 {
			t.Fatalf("Get = %+v, %v, want three values", got, err)
		}
		var texts []string
		for _, v := range got {
			texts, revisions = append(texts, v.Text), append(revisions, v.Revision)
		}
		if !slices.Equal(texts, append(want, "")) || revisions[2] != "" {
			t.Errorf("Get = %q with the revisions %q, want %q and nothing", texts, revisions, want)
		}
		return revisions
	}
	put := func(revision string, want bool, texts ...string) {
		t.Helper()
		var all []directory.Text
		for i, text := range texts {
			all = append(all, directory.Text{Name: []string{"a", "b"}[i], Text: text})
		}
		if done, err := s.Put(ctx, revision, all...); err != nil || done != want {
			t.Errorf("Put(%q, %q) = %t, %v, want %t", revision, texts, done, err, want)
		}
	}
	empty := get("", "")
	put("1", false, "x")
	put(empty[0], true, "one", "bytes \x00\n\xff")
	first := get("one", "bytes \x00\n\xff")
	put(empty[0], true, "one", "other") // a repeat, which changes nothing
	get("one", "bytes \x00\n\xff")
	put(empty[0], false, "two")
	put(first[0], true, "two", "")
	second := get("two", "")
	put(first[0], false, "three", "x")
	put(second[0], true, "one")
	put(first[0], false, "four") // the text was there before, and is another revision now
	get("one", "")

	revision, done := get("one", "")[0], make([]bool, 4)
	var all sync.WaitGroup
	for i := range done {
		all.Go(func() {
			var err error
			if done[i], err = s.Put(ctx, revision, directory.Text{Name: "a", Text: fmt.Sprint("by ", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := s.Get(ctx, directory.Present, "a")
	winners := slices.DeleteFunc([]int{0, 1, 2, 3}, func(i int) bool { return !done[i] })
	if err != nil || len(winners) != 1 || got[0].Text != fmt.Sprint("by ", winners[0]) {
		t.Errorf("%v have put, and the value is %+v, %v; want one", winners, got, err)
	}
}

// names: a name has one holder at a time, and asking changes nothing.
func names(t *testing.T, d *directory.Directory) {
	for _, c := range []struct {
		name, holder string
		ttl          time.Duration
		want         string
	}{
		{"n", "", 0, ""},
		{"n", "a b", 0, ""},
		{"n", "", long, ""},
		{"n", "a b", long, "a b"},
		{"n", "", 0, "a b"},
		{"n", "", long, "a b"},
		{"n", "b", long, "a b"},
		{"n", "b", 0, "a b"},
		{"other", "b", long, "b"},
		{"n", "a b", long / 2, "a b"},
		{"n", "a b", 0, ""},
		{"n", "b", long, "b"},
	} {
		if got, err := d.Store.Hold(t.Context(), c.name, c.holder, c.ttl); got != c.want || err != nil {
			t.Errorf("Hold(%q, %q, %v) = %q, %v, want %q", c.name, c.holder, c.ttl, got, err, c.want)
		}
	}
}
