package hub

import (
	"testing"

	"github.com/millrace/millrace/internal/test/scripttest"
)

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}
