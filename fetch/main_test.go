package fetch

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beChild(spec))
		os.Exit(1)
	}
	if spec := os.Getenv(crowdEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beCrowd(spec))
		os.Exit(1)
	}
	redistest.Main(m)
}
