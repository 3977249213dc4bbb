package upkeep

import (
	"testing"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck and
// their keys to those of keys.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	for name, source := range map[string][]string{
		"upkeep.publish": {publishSource, openFragment, reqid.Fragment},
		"upkeep.totals":  {totalsSource, openFragment},
	} {
		for _, p := range luacheck.Check(name, source[0], luacheck.Options{Prelude: source[1:], Keys: keys}) {
			t.Error(p)
		}
	}
}
