package ick

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beConsumer(spec))
		os.Exit(1)
	}
	redistest.Main(m)
}
