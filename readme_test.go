package millrace_test

import (
	"os"
	"strings"
	"testing"
)

// TestREADMEExample holds the README's program to the one that is compiled with
// everything else.
func TestREADMEExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(source), "package main\n")
	_, block, ok := strings.Cut(string(readme), "```go\npackage main\n")
	if !ok {
		t.Fatal("the README has no program")
	}
	block, _, _ = strings.Cut(block, "```")
	if block != program {
		t.Errorf("the README's program is not that of examples/quickstart:\n%s", block)
	}
}
