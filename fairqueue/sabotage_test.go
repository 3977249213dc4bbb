package fairqueue

import (
	"strings"
	"testing"

	script "github.com/millrace/millrace/internal/oldscript"
)

// withScript returns the scripts with one passage replaced.
func withScript(t *testing.T, old, replacement string) *scripts {
	t.Helper()
	found := false
	cut := func(source string) string {
		found = found || strings.Contains(source, old)
		return strings.ReplaceAll(source, old, replacement)
	}
	s := assemble(func(name, source string, fragments ...string) *script.Script {
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

// withTend returns the script tend with one passage replaced.
func withTend(t *testing.T, old, replacement string) *script.Script {
	t.Helper()
	return withScript(t, old, replacement).tend
}
