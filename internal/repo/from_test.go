package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fromPages returns the pages about other systems, by path.
func fromPages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("docs/FROM*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	return pages
}

// TestFromNamesWhatExists: fields and methods on the side of the tables that is ours are in api.txt.
func TestFromNamesWhatExists(t *testing.T) {
	t.Parallel()
	api, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Draft|Message|Config|ConsumeConfig|Queue|Recruiter)\\.(\\w+)`")
	found := 0
	for path, page := range fromPages(t) {
		for line := range strings.Lines(page) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				continue
			}
			for _, name := range named.FindAllStringSubmatch(cells[len(cells)-2], -1) {
				found++
				declared := regexp.MustCompile(`\b` + name[1] + `\b.*\b` + name[2] + `\b`)
				if !declared.Match(api) {
					t.Errorf("%s: there is no %s.%s: %s", path, name[1], name[2], line)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("%d names found, which is too few", found)
	}
}

// fromCode begins a piece of code of a page, and names its file.
var fromCode = regexp.MustCompile(`^(?://|#) ((?:examples|clients)/\S+)\n`)

// TestFromShowsWhatRuns: code of the pages that names its file is in the file, which tests compile and run. A piece of
// code may leave out paragraphs of the file.
func TestFromShowsWhatRuns(t *testing.T) {
	t.Parallel()
	want := map[string]int{"docs/FROM_ASYNQ.md": 2, "docs/FROM_RIVER.md": 2, "docs/FROM_BULLMQ.md": 1, "docs/FROM_SIDEKIQ.md": 1}
	for path, page := range fromPages(t) {
		for i, block := range strings.Split(page, "\n```") {
			_, code, _ := strings.Cut(block, "\n")
			name := fromCode.FindStringSubmatch(code)
			if i%2 == 0 || name == nil {
				continue
			}
			want[path]--
			file, err := os.ReadFile(name[1])
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for paragraph := range strings.SplitSeq(code[len(name[0]):], "\n\n") {
				if !strings.Contains(string(file)+"\n", "\n"+strings.Trim(paragraph, "\n")+"\n") {
					t.Errorf("%s: this is not in %s:\n%s", path, name[1], paragraph)
				}
			}
		}
	}
	for path, left := range want {
		if left != 0 {
			t.Errorf("%s: %d pieces of code more are wanted", path, left)
		}
	}
}
