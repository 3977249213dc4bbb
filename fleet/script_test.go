package fleet

import (
	"testing"

	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck and
// their keys to those of keys.go.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name, source string
		prelude      []string
	}{
		{"fleet.place", placeSource, []string{memberFragment, roomFragment}},
		{"fleet.forward", forwardSource, []string{memberFragment}},
		{"fleet.vacancy", vacancySource, []string{memberFragment, roomFragment}},
		{"fleet.raise", raiseSource, []string{memberFragment}},
		{"fleet.exchange", exchangeSource, []string{memberFragment}},
	} {
		for _, p := range luacheck.Check(s.name, s.source, luacheck.Options{Prelude: s.prelude, Keys: keys}) {
			t.Error(p)
		}
	}
}
