package repo

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests at the top of the repository, of which they read the files.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
