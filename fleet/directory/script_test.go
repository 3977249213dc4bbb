package directory

import (
	"testing"

	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck and
// their keys to those of keys.go.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"directory.confirm": confirmSource,
		"directory.change":  changeSource,
		"directory.hint":    hintSource,
		"directory.hints":   hintsSource,
		"directory.lead":    leadSource,
		"directory.note":    noteSource,
	} {
		for _, p := range luacheck.Check(name, source, luacheck.Options{Keys: keys}) {
			t.Error(p)
		}
	}
}
