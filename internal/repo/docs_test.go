package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTests checks that each test, fuzz target and benchmark that a page names exists, in the
// package that the page names.
func TestDocsNameTests(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{} // by name, and by package and name
	for name := range declaredTests(t) {
		declared[name] = true
		declared[name[strings.LastIndex(name, ".")+1:]] = true
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
		for number, line := range strings.Split(string(text), "\n") {
			for _, match := range named.FindAllStringSubmatch(line, -1) {
				if !declared[match[1]] && match[2] == "" {
					t.Errorf("%s:%d: there is no %s", page, number+1, match[1])
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
	headings := map[string]map[string]bool{} // of a page
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
			} else if anchor != "" {
				if headings[target] == nil {
					headings[target] = anchors(t, target)
				}
				if !headings[target][anchor] {
					t.Errorf("%s: %s: %s has no such heading", page, match[0], target)
				}
			}
		}
	}
}

// anchors returns those of the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		all[anchorOf(heading[1])] = true
	}
	return all
}

// anchorOf returns the anchor that GitHub gives to a heading.
func anchorOf(heading string) string {
	words := strings.ToLower(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, ""))
	return strings.ReplaceAll(words, " ", "-")
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
