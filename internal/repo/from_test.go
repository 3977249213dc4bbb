package repo

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFromNamesWhatExists: fields and methods on the side of docs/FROM.md that is ours are in api.txt.
func TestFromNamesWhatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/FROM.md")
	if err != nil {
		t.Fatal(err)
	}
	api, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Draft|Config|ConsumeConfig|Queue|Recruiter)\\.(\\w+)`")
	found := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, name := range named.FindAllStringSubmatch(cells[2], -1) {
			found++
			declared := regexp.MustCompile(`\b` + name[1] + `\b.*\b` + name[2] + `\b`)
			if !declared.Match(api) {
				t.Errorf("there is no %s.%s: %s", name[1], name[2], line)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d names found, which is too few", found)
	}
}
