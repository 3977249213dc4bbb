package pinned

import (
	"flag"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) {
	// Each step of a model asks the server several times; -rapid.checks says otherwise.
	_ = flag.Set("rapid.checks", "40")
	redistest.Main(m)
}
