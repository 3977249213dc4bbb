package tracker

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := beSlices(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Each step of a model asks the server several times; -rapid.checks says otherwise.
	_ = flag.Set("rapid.checks", "40")
	redistest.Main(m)
}
