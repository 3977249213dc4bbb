package repo

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocsNameTests checks that each test, fuzz target and benchmark that a page names exists, in the
// package that the page names. In docs/GUARANTEES.md the default is the package of the heading.
func TestDocsNameTests(t *testing.T) {
	t.Parallel()
	rooms := map[string][]string{
		"ick": {"ick"}, "lease": {"lease"}, "steal": {"steal"}, "fairqueue": {"fairqueue"}, "expiry": {"expiry", "pinned"},
		"fetch": {"fetch"}, "tracker": {"tracker"}, "scatter": {"scatter"}, "fleet": {"fleet"},
		"failover": {"internal/fleet/failover"}, "rebalance": {"internal/fleet/rebalance"}, "snapshots": {"internal/fleet/snapshot"},
	}
	declared := map[string]bool{} // by name, and by package and name
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			declared[string(match[1])] = true
			declared[filepath.ToSlash(filepath.Dir(path))+"."+string(match[1])] = true
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
	named := regexp.MustCompile("`((?:[a-z/]+\\.)?(?:Test|Fuzz|Benchmark)[A-Z]\\w*)(\\.\\.\\.)?")
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var room []string
		for number, line := range strings.Split(string(text), "\n") {
			if heading, ok := strings.CutPrefix(line, "## "); ok && filepath.Base(page) == "GUARANTEES.md" {
				room = rooms[heading]
			}
			for _, match := range named.FindAllStringSubmatch(line, -1) {
				name := match[1]
				inRoom := func(dir string) bool { return declared[dir+"."+name] }
				if len(room) > 0 && !strings.Contains(name, ".") && !slices.ContainsFunc(room, inRoom) || !declared[name] && match[2] == "" {
					t.Errorf("%s:%d: there is no %s", page, number+1, name)
				}
			}
		}
	}
}

// TestDocsLinks checks that each relative link of a page leads to a file, and to a heading if it names one.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*/*.md", "clients/*/*.md"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, matches...)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllSubmatch(text, -1) {
			target, anchor := page, string(match[2])
			if path := string(match[1]); path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere: %v", page, match[0], err)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s: %s: %s has no such heading", page, match[0], target)
			}
		}
	}
}

// hasHeading reports whether a page has the heading that an anchor names.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(text, -1) {
		words := strings.ToLower(dropped.ReplaceAllString(string(heading[1]), ""))
		if strings.ReplaceAll(words, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestDocsNameAlerts checks that docs/OPERATIONS.md has a section for each alert of deploy/grafana/alerts.yaml.
func TestDocsNameAlerts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("deploy/grafana/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("deploy/grafana/alerts.yaml has no alerts")
	}
	for _, match := range alerts {
		if !strings.Contains(string(page), "`"+string(match[1])+"`") {
			t.Errorf("docs/OPERATIONS.md does not name the alert %s", match[1])
		}
	}
}

// TestWordsLeadToCode checks that each word in the last table of docs/ARCHITECTURE.md is in the files beside it.
func TestWordsLeadToCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| word | files |\n|---|---|\n")
	note, file := regexp.MustCompile(` \([^)]*\)`), regexp.MustCompile("`([^`]+)`")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			t.Fatalf("not a row of two cells: %s", row)
		}
		for _, match := range file.FindAllStringSubmatch(cells[2], -1) {
			text, err := os.ReadFile(match[1])
			if err != nil {
				t.Error(err)
			}
			for word := range strings.SplitSeq(note.ReplaceAllString(cells[1], ""), ",") {
				if word = strings.TrimSpace(word); !strings.Contains(strings.ToLower(string(text)), word) {
					t.Errorf("%s does not have the word %q", match[1], word)
				}
			}
		}
	}
	if table == "" {
		t.Error("docs/ARCHITECTURE.md has no table of words")
	}
}

// TestSymptomsLeadToCode checks that docs/ARCHITECTURE.md names functions that exist, each in one of the
// files beside it.
func TestSymptomsLeadToCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what you see | function | file |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted, rows := regexp.MustCompile("`([^`]+)`"), 0
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 5 {
			t.Fatalf("not a row of three cells: %s", row)
		}
		rows++
		var code strings.Builder
		for _, file := range quoted.FindAllStringSubmatch(cells[3], -1) {
			text, err := os.ReadFile(file[1])
			if err != nil {
				t.Error(err)
			}
			code.Write(text)
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|(local )?function (\w+\.)?|local [\w, ]*)\b` + name[1] + `\b`).MatchString(code.String()) {
				t.Errorf("%s does not define %s", cells[3], name[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("docs/ARCHITECTURE.md has %d symptoms, want all of its table", rows)
	}
}

// TestDocsNameFiles checks that the files that pages name by their path exist.
func TestDocsNameFiles(t *testing.T) {
	t.Parallel()
	pages, _ := filepath.Glob("docs/*.md")
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("`([a-z]+/[^` ]+\\.(?:go|lua|md|json|yaml))`").FindAllSubmatch(text, -1) {
			if files, _ := filepath.Glob(string(match[1])); len(files) == 0 {
				t.Errorf("%s: there is no %s", page, match[1])
			}
		}
	}
}
