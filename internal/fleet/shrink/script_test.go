package shrink

import (
	"testing"

	"github.com/millrace/millrace/internal/script/scripttest"
)

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}
