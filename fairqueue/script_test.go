package fairqueue

import (
	"testing"

	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/script/luacheck"
)

// TestScriptsKeepTheRules holds the scripts to the rules of package luacheck and
// their keys to those of keys.go.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	assemble(func(name, source string, fragments ...string) *script.Script {
		for _, p := range luacheck.Check(name, source, luacheck.Options{Prelude: fragments, Keys: keys}) {
			t.Error(p)
		}
		return script.New(name, source, fragments...)
	})
}
