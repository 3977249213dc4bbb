package expiry

import (
	"strings"
	"testing"

	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestHashScriptsKeepTheRules holds the scripts of hashes to the rules of package
// luacheck, and their keys to those of hash_keys.go.
func TestHashScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	assembleHashes(func(name, source string, fragments ...string) *script.Script {
		for _, p := range luacheck.Check(name, source, luacheck.Options{Prelude: fragments, Keys: hashKeys}) {
			t.Error(p)
		}
		return script.New(name, source, fragments...)
	})
}

// withoutProtection returns the scripts with one passage replaced.
func withoutProtection(t *testing.T, old, replacement string) *hashScripts {
	t.Helper()
	found := false
	cut := func(source string) string {
		found = found || strings.Contains(source, old)
		return strings.ReplaceAll(source, old, replacement)
	}
	s := assembleHashes(func(name, source string, fragments ...string) *script.Script {
		for i, f := range fragments {
			fragments[i] = cut(f)
		}
		return script.New(name, cut(source), fragments...)
	})
	if !found {
		t.Fatalf("no script has %q: the sabotage would prove nothing", old)
	}
	return s
}
