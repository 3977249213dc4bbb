package tracker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsRefuseWrongCalls makes calls that a program in another language may get wrong: each is
// refused and changes nothing. The empty identifier is the mark of a set that was not lost.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work})
	work.start("a")
	pass(t, tr)
	at, err := tr.place(t.Context(), &tr.run)
	if err != nil {
		t.Fatal(err)
	}
	seen := fmt.Sprint(stamp(t, tr, "a"))
	calls := map[string][]string{
		"add of the empty identifier":     {"add", "b", ""},
		"add of a long identifier":        {"add", "b", strings.Repeat("x", maxBytes+1)},
		"add of too many":                 append([]string{"add"}, slices.Repeat([]string{"b"}, MaxIDs+1)...),
		"advance to the empty identifier": {"advance", at.life, at.passes, at.cursor, at.now, "next", "b", ""},
		"advance to a long cursor":        {"advance", at.life, at.passes, at.cursor, at.now, strings.Repeat("x", maxCursor+1), "b"},
		"settle the empty identifier":     {"settle", at.now, "a", seen, "0", "", "inf", "0"},
		"settle without a verdict":        {"settle", at.now, "a", seen, "0", "b", "1"},
		"settle with another verdict":     {"settle", at.now, "a", seen, "0", "b", "1", "no"},
	}
	for _, bad := range []string{"", "x", "nan", "inf", "1.5", "-1", " 1", "99999999999999999999"} {
		calls["advance at "+bad] = []string{"advance", at.life, at.passes, at.cursor, bad, "next", "b"}
		calls["advance at the end at "+bad] = []string{"advance", at.life, at.passes, at.cursor, bad, ""}
		calls["settle at "+bad] = []string{"settle", bad, "b", "1", "0", "a", seen, "1"}
	}
	scripttest.RefusesWhole(t, &tr.run, baseKey(tr.name), "*"+tr.name+"*", calls)
	wantState(t, tr, "a", Queued)
	wantState(t, tr, "b", NotQueued)
}
