package fairqueue

import (
	flags "flag"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beWorker(spec))
		os.Exit(1)
	}
	if spec := os.Getenv(keeperEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beKeeper(spec))
		os.Exit(1)
	}
	_ = flags.Set("rapid.shrinktime", "5s")
	redistest.Main(m)
}
