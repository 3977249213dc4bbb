package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const recipes = "docs/RECIPES.md"

// A screen has this many lines.
const screen = 60

// TestRecipes: each answer of docs/RECIPES.md is in the index, fits on a screen, names its tests, and shows lines of a file
// that it links.
func TestRecipes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(recipes)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")
	index := sections[0]
	if rows := strings.Count(index, "](#"); rows != len(sections)-1 {
		t.Errorf("the index has %d rows, for %d answers", rows, len(sections)-1)
	}
	var (
		link = regexp.MustCompile(`\]\(\.\./([^)#]+)\)`)
		test = regexp.MustCompile("`[a-z/]+\\.Test[A-Z]\\w*`")
		code = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	)
	for _, section := range sections[1:] {
		title, _, _ := strings.Cut(section, "\n")
		if !strings.Contains(index, "](#"+strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ",", "")), " ", "-")+")") {
			t.Errorf("%s: the index does not lead there", title)
		}
		if lines := strings.Count(section, "\n"); lines > screen {
			t.Errorf("%s: the answer has %d lines, more than a screen of %d", title, lines, screen)
		}
		for _, part := range []string{"\n**Why.** ", "\n**Watch.** "} {
			if !strings.Contains(section, part) {
				t.Errorf("%s: there is no %s", title, strings.TrimSpace(part))
			}
		}
		if !test.MatchString(section) {
			t.Errorf("%s: the answer names no test", title)
		}
		files := map[string]string{}
		for _, to := range link.FindAllStringSubmatch(section, -1) {
			if filepath.Ext(to[1]) == ".go" || filepath.Ext(to[1]) == ".yaml" {
				text, err := os.ReadFile(to[1])
				if err != nil {
					t.Error(err)
				}
				files[to[1]] = string(text)
			}
		}
		blocks := code.FindAllStringSubmatch(section, -1)
		if len(blocks) == 0 {
			t.Errorf("%s: there is nothing to copy", title)
		}
		for _, block := range blocks {
			if block[1] == "sh" || shownIn(files, block[1], block[2]) {
				continue
			}
			t.Errorf("%s: no file that the answer links has these lines:\n%s", title, block[2])
		}
	}
}

// shownIn reports whether one of the files has the lines of a block one after the other. Functions are apart from each other
// there, and statements of a function have tabs in front.
func shownIn(files map[string]string, language, block string) bool {
	for file, text := range files {
		parts := []string{block}
		if language == "go" {
			parts = strings.SplitAfter(block, "\n}\n")
		}
		all := filepath.Ext(file) == "."+language
		for _, part := range parts {
			part = "\n" + strings.TrimPrefix(part, "\n")
			all = all && (strings.Contains(text, part) || strings.Contains(text, strings.ReplaceAll(strings.TrimSuffix(part, "\n"), "\n", "\n\t")+"\n") ||
				strings.Contains(text, strings.ReplaceAll(strings.TrimSuffix(part, "\n"), "\n", "\n\t\t")+"\n"))
		}
		if all {
			return true
		}
	}
	return false
}

func TestShownIn(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.go": "package a\n\nfunc one() {\n\tx := 1\n\ty := 2\n}\n\n// two\nfunc two() {}\n\nfunc three() {\n}\n", "b.yaml": "a:\n  b: 1\n  c: 2\n"}
	for _, c := range []struct {
		language, block string
		want            bool
	}{
		{"go", "func one() {\n\tx := 1\n\ty := 2\n}\n", true},
		{"go", "func one() {\n\tx := 1\n\ty := 2\n}\n\nfunc three() {\n}\n", true},
		{"go", "x := 1\ny := 2\n", true},
		{"go", "x := 1\n", true},
		{"go", "x := 2\n", false},
		{"go", "func one() {\n\tx := 1\n}\n", false},
		{"go", "func one() {\n\tx := 1\n\ty := 2\n}\n\nfunc four() {\n}\n", false},
		{"go", "  b: 1\n", false},
		{"yaml", "  b: 1\n  c: 2\n", true},
		{"yaml", "b: 1\nc: 2\n", false},
		{"yaml", "  c: 1\n", false},
	} {
		if got := shownIn(files, c.language, c.block); got != c.want {
			t.Errorf("shownIn(%s, %q) = %v, want %v", c.language, c.block, got, c.want)
		}
	}
}

// TestRecipesPageForCriticalAlerts: the alerts of the last answer are rules, and critical ones.
func TestRecipesPageForCriticalAlerts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(recipes)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("deploy/grafana/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	severity := map[string]string{}
	for _, rule := range strings.Split(string(rules), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		_, rest, _ = strings.Cut(rest, "severity: ")
		severity[name], _, _ = strings.Cut(rest, "\n")
	}
	paged := 0
	for _, alert := range regexp.MustCompile("(\\| )?`(Millrace[A-Z]\\w+)`").FindAllStringSubmatch(string(page), -1) {
		if severity[alert[2]] == "" {
			t.Errorf("there is no alert %s", alert[2])
		}
		if alert[1] == "" {
			continue
		}
		if paged++; severity[alert[2]] != "critical" {
			t.Errorf("the page wakes a person for %s, which is a %s", alert[2], severity[alert[2]])
		}
	}
	if paged != 3 {
		t.Errorf("the page wakes a person for %d alerts, want 3", paged)
	}
}
