package repo

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are words that stood here for terms of the field, and what to write instead.
// They are looked for in identifiers, comments, texts and pages.
var retired = map[string]string{
	"courier":   "dispatcher, consumer",
	"couriers":  "dispatchers, consumers",
	"errand":    "call, job",
	"folk":      "users",
	"desk":      "directory, dispatcher",
	"garbled":   "undecodable",
	"glance":    "interval, check",
	"glances":   "intervals, checks",
	"heed":      "follow, use",
	"heeded":    "followed, used",
	"joint":     "batcher",
	"joints":    "batchers",
	"parcel":    "chunk, batch",
	"parcels":   "chunks, batches",
	"patience":  "timeout",
	"patiently": "how often, for how long",
	"physician": "examiner",
	"ripe":      "due",
	"scout":     "prober",
	"scouts":    "probers",
	"sightings": "counts",
	"twins":     "pairs",
	"unawares":  "by mistake",
}

// retiredExcept are the files in which a word is the right one.
var retiredExcept = map[string][]string{
	"garbled": {"internal/ops/queue_search.go"}, // a field of the contract
}

// history are pages that quote what once was.
var history = []string{"CHANGELOG.md", "docs/decisions", "internal/repo/words_test.go"}

var wordForm = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// TestWords finds retired words. Identifiers are split at their capitals.
func TestWords(t *testing.T) {
	t.Parallel()
	words := slices.Collect(maps.Keys(retired))
	kinds := []string{".go", ".lua", ".md", ".html", ".js", ".css", ".py", ".ts", ".yaml", ".sh", ".tmpl"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), ".") || path == "build" || slices.Contains(history, path) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() || !slices.Contains(kinds, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lower := strings.ToLower(string(text))
		if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) }) {
			return nil // splitting a file into words takes much longer
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, word := range wordForm.FindAllString(line, -1) {
				word = strings.ToLower(word)
				if better := retired[word]; better != "" && !slices.Contains(retiredExcept[word], path) {
					t.Errorf("%s:%d: %q is retired: write %s", path, i+1, word, better)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// headless finds a clause that has "what" or "who" in place of a subject, and words for nobody in
// particular.
var headless = regexp.MustCompile(`(?i)\b(?:what|who) (?:is|was|were|are|has|have|had|it|they|a|the|one|others|no|cannot|could|does|did|must|may|keeps|comes|lies|goes|stays|waits|never|only|both|all|each|nobody)\b|\b(?:whoever|nobody|somebody)\b`)

// mostHeadless is how many of 1,000 lines of comments may have such a clause: where it is the clearest.
const mostHeadless = 3

// TestHeadlessComments keeps sentences plain: the subject first, and a word of the field for it.
func TestHeadlessComments(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`^\s*(?://|--)(.*)`)
	comments, found := 0, 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), "."), path == "build":
			return filepath.SkipDir
		case d.IsDir(), filepath.Ext(path) != ".go" && filepath.Ext(path) != ".lua":
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if said := comment.FindStringSubmatch(line); said != nil {
				comments++
				if headless.MatchString(said[1]) {
					found++
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := 1000 * found / comments; got > mostHeadless {
		t.Errorf("%d of 1,000 lines of comments have no subject, want at most %d", got, mostHeadless)
	}
}

// TestCommitSubjects: a list of commits shows 72 characters of a subject.
func TestCommitSubjects(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("this is no clone")
	}
	// Older ones are as they are.
	log, err := exec.Command("git", "log", "-50", "--after=2026-11-27T22:00:00Z", "--format=%s").Output()
	if err != nil {
		t.Fatal(err)
	}
	for subject := range strings.Lines(string(log)) {
		if subject = strings.TrimSpace(subject); len(subject) > 72 {
			t.Errorf("the subject %q has %d characters, want at most 72", subject, len(subject))
		}
	}
}
