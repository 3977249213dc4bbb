package expiry

import (
	"testing"

	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestKeyScriptsKeepTheRules holds the scripts of deterministic values to the
// rules of package luacheck, and their keys to those of keys_layout.go.
func TestKeyScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	assembleKeys(func(name, source string, fragments ...string) *script.Script {
		keys := keysOfKeys
		if name == "expiry.claim" {
			keys = func(base string) []string { return []string{base} }
		}
		for _, p := range luacheck.Check(name, source, luacheck.Options{Prelude: fragments, Keys: keys}) {
			t.Error(p)
		}
		return script.New(name, source, fragments...)
	})
}
