package millrace_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTests checks that each test, fuzz target and benchmark that a page names exists.
func TestDocsNameTests(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			declared[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages: %q, %v", pages, err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)(\\.\\.\\.)?")
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range bytes.Split(text, []byte("\n")) {
			for _, match := range named.FindAllSubmatch(line, -1) {
				if name := string(match[1]); len(match[2]) == 0 && !declared[name] {
					t.Errorf("%s:%d: there is no %s", page, number+1, name)
				}
			}
		}
	}
}
