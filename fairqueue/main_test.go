package fairqueue

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beWorker(spec))
		os.Exit(1)
	}
	redistest.Main(m)
}
