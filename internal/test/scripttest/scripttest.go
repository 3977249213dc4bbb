// Package scripttest has the common parts of tests of scripts: the rules for scripts, scripts
// without one of their protections, and servers that know them.
package scripttest

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/luacheck"
)

// Check holds the scripts of a library to the rules of package luacheck.
func Check(t *testing.T, library *script.Library) {
	t.Helper()
	for _, p := range luacheck.Check(library) {
		t.Error(p)
	}
}

// Without returns the library with a passage replaced, in each file that has it.
func Without(t *testing.T, library *script.Library, passage, replacement string) *script.Library {
	t.Helper()
	found := false
	edited := library.Edit(func(_, source string) string {
		found = found || strings.Contains(source, passage)
		return strings.ReplaceAll(source, passage, replacement)
	})
	if !found {
		t.Fatalf("no script has %q: without it nothing is shown", passage)
	}
	return edited
}

// Load makes a server know the scripts of a library, so that no EVALSHA is answered
// with NOSCRIPT.
func Load(t *testing.T, client rueidis.Client, library *script.Library) {
	t.Helper()
	for _, s := range library.Scripts() {
		for addr, node := range client.Nodes() {
			if err := node.Do(t.Context(), node.B().ScriptLoad().Script(s.Source()).Build()).Error(); err != nil {
				t.Fatalf("%s on %s: %v", s.Name(), addr, err)
			}
		}
	}
}
