package rebalance

import (
	"testing"

	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	keys := func(base string) []string { return []string{base + "mr:fleet:id", base + "mr:fleet:{*}", base + "*"} }
	for name, source := range map[string]string{"rebalance.restore": restoreSource, "rebalance.clear": clearSource} {
		for _, p := range luacheck.Check(name, source, luacheck.Options{Prelude: []string{guardFragment}, Keys: keys}) {
			t.Error(p)
		}
	}
}
