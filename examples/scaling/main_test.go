package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGuideShowsWhatIsPrinted runs the program as a reader would, and compares the guide's
// blocks of text with its output.
func TestGuideShowsWhatIsPrinted(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	guide, err := os.ReadFile("../../docs/SCALING.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```text\n(.*?)```\n").FindAllSubmatch(guide, -1) {
		blocks = append(blocks, string(match[1]))
	}
	program := exec.Command("go", "run", ".")
	out, err := program.Output()
	if err != nil {
		t.Fatalf("go run .: %v", err)
	}
	if diff := cmp.Diff(strings.Split(string(out), "\n"), strings.Split(strings.Join(blocks, "\n"), "\n")); diff != "" {
		t.Errorf("docs/SCALING.md does not show what go run ./examples/scaling prints (-printed +shown):\n%s", diff)
	}
}
