package tracker

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := beSlices(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.Main(m)
}
