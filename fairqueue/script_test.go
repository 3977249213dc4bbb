package fairqueue

import (
	"testing"

	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsKeepTheRules runs the checks of luacheck on each script: commands of Redis 6.2, keys of one slot,
// its header.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}
