package repo

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// roomSizes are the parts of the repository by the paths of their files, of which the first match counts, and how many lines each may
// have, tests aside. A room that needs more gives a reason in docs/decisions/047.
var roomSizes = []struct {
	name  string
	paths *regexp.Regexp
	lines map[string]int // by extension
}{
	{"tests", regexp.MustCompile(`_test\.go$|^conformance/|^millracetest/|^internal/(test|repo|chaos)/`), nil},
	{"bench, demo, examples", regexp.MustCompile(`^bench/|^internal/(bench|must)/|/demo/|^examples/`), map[string]int{".go": 10_600}},
	{"command", regexp.MustCompile(`^cmd/`), map[string]int{".go": 9_850}},
	{"service", regexp.MustCompile(`^server/|^internal/survey/`), map[string]int{".go": 10_300}},
	{"fleet", regexp.MustCompile(`^fleet/|^internal/(fleet|devfleet)/|^ring/`), map[string]int{".go": 21_400, ".lua": 500}},
	{"adapters", regexp.MustCompile(`^observe/|^internal/(diagnosis|readable)/`), map[string]int{".go": 3_300, ".lua": 120}},
	{"operations", regexp.MustCompile(`^internal/ops/`), map[string]int{".go": 4_500}},
	{"structures", regexp.MustCompile(``), map[string]int{".go": 29_800, ".lua": 6_650}},
}

// TestRoomsDoNotGrow: each line has to be kept right, so a room grows only with a reason.
func TestRoomsDoNotGrow(t *testing.T) {
	t.Parallel()
	lines := map[string]map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), "."), path == "build":
			return filepath.SkipDir
		case d.IsDir(), ext != ".go" && ext != ".lua":
			return nil
		}
		for _, room := range roomSizes {
			if !room.paths.MatchString(filepath.ToSlash(path)) {
				continue
			}
			if lines[room.name] == nil {
				lines[room.name] = map[string]int{}
			}
			text, err := os.ReadFile(path)
			lines[room.name][ext] += bytes.Count(text, []byte("\n"))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range roomSizes {
		for ext, most := range room.lines {
			if got := lines[room.name][ext]; got > most || got < most*9/10 {
				t.Errorf("%s: %d lines in %s files, want %d at most, and not less than nine tenths of that: cut something, or say in docs/decisions/047 which promise needs them, and change the number", room.name, got, ext, most)
			}
		}
	}
}
