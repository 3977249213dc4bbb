package conformance

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(lossWorkerEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beLossWorker(spec))
		os.Exit(1)
	}
	redistest.Main(m)
}
