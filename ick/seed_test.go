package ick

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestExchangeUnderASeed: an exchange that two processes send under the same seed
// commits once, and both get the same answer. Members
// marked anew meanwhile are not forgotten.
func TestExchangeUnderASeed(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	replaced := func() *Ick { return openOn(t, redistest.Shared(t).Client(t), name, Config{}) }
	k := replaced()
	wantAdd(t, k, "a1 b2 c3", 3, 0)
	token := wantReserve(t, k, 2, "a1 b2")
	exchange := func(seed, members string, committed, kept int, entries string) string {
		t.Helper()
		r, c, err := replaced().Exchange(reqid.With(t.Context(), seed), token, strings.Fields(members), 2)
		want(t, "exchange under the seed "+seed, c, Committed{Committed: committed, Kept: kept}, err)
		want(t, "entries under the seed "+seed, show(r.Entries), entries, nil)
		return r.Token
	}
	first := exchange("one", "a b", 2, 0, "c3")
	if again := exchange("one", "a b", 2, 0, "c3"); again != first {
		t.Errorf("tokens %s and %s, want the same", first, again)
	}
	wantAdd(t, k, "a4", 1, 0)
	exchange("one", "a b", 2, 0, "c3 a4")
	exchange("two", "a b", 0, 1, "c3 a4")
	if s, err := k.Stats(t.Context()); err != nil || s.Counters.Committed != 2 {
		t.Errorf("Stats = %+v, %v, want 2 committed", s, err)
	}
}
