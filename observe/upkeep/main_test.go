package upkeep

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		fmt.Fprintln(os.Stderr, beRecruiter(url))
		os.Exit(1)
	}
	redistest.Main(m)
}
