package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSite builds the site, and looks for each page, what llms.txt links, and a word in the index of the search. A dead
// link ends the build.
func TestSite(t *testing.T) {
	redistest.Long(t)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not on PATH")
	}
	if out, err := exec.Command("make", "site").CombinedOutput(); err != nil {
		t.Fatalf("make site: %v\n%s", err, out)
	}
	const public = "build/site/public/"
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, decisions...) {
		page = strings.TrimPrefix(page, "docs/")
		for _, file := range []string{page, strings.TrimSuffix(page, ".md") + ".html"} {
			if _, err := os.Stat(public + file); err != nil {
				t.Errorf("the site lacks a page: %v", err)
			}
		}
	}
	for _, link := range linksOf(t, public+"llms.txt") {
		if strings.HasPrefix(link, "https://") {
			continue
		}
		if _, err := os.Stat(public + link); err != nil {
			t.Errorf("llms.txt of the site: %v", err)
		}
	}
	indexes, err := filepath.Glob(public + "assets/chunks/*localSearchIndex*.js")
	if err != nil || len(indexes) != 1 {
		t.Fatalf("indexes of the search: %q, %v, want one", indexes, err)
	}
	index, err := os.ReadFile(indexes[0])
	if err != nil || !strings.Contains(string(index), "noeviction") {
		t.Errorf("the search does not know noeviction (error %v)", err)
	}
}

// TestLLMs: llms.txt names each page of docs once. The sidebar of the site is made of it.
func TestLLMs(t *testing.T) {
	t.Parallel()
	named := map[string]int{}
	for _, link := range linksOf(t, "llms.txt") {
		if _, err := os.Stat(link); err != nil {
			t.Errorf("llms.txt: %v", err)
		}
		named[link]++
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("pages: %q, %v", pages, err)
	}
	for _, page := range pages {
		if named[page] != 1 {
			t.Errorf("llms.txt names %s %d times, want once", page, named[page])
		}
	}
}

// linksOf returns where the links of a page lead.
func linksOf(t *testing.T, page string) (links []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		links = append(links, match[1])
	}
	return links
}
