package millrace_test

import (
	"io/fs"
	"maps"
	"os"
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
	"garbled": {"server/internal/api/dead.go"}, // a field of the contract
}

// history are pages that quote what once was.
var history = []string{"CHANGELOG.md", "docs/decisions", "words_test.go"}

var wordForm = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// TestWords finds retired words. Identifiers are split at their capitals.
func TestWords(t *testing.T) {
	t.Parallel()
	words := slices.Collect(maps.Keys(retired))
	kinds := []string{".go", ".lua", ".md", ".html", ".js", ".css", ".yaml", ".sh", ".tmpl"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), ".") || slices.Contains(history, path) {
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
