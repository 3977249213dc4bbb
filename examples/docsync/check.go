package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// sampled is how many words of edited documents are searched for.
const sampled = 200

// findings is what the comparison of index and database found.
type findings struct {
	documents   int      // compared
	words       int      // searched for
	differences []string // what does not agree, a line each
}

// check compares the index in a folder with the database there: every document,
// and the words that a sample of edits brought.
func check(ctx context.Context, folder string) (f findings, err error) {
	docs, err := openStore(ctx, folder)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, docs.close()) }()
	words, err := openIndex(folder)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, words.close()) }()

	if err := f.compare(ctx, docs, words); err != nil {
		return f, err
	}
	return f, f.search(ctx, docs, words)
}

// compare looks for documents that are missing from the index, old in it, or
// should not be there.
func (f *findings) compare(ctx context.Context, docs *store, words *index) error {
	stamps, err := words.stamps()
	if err != nil {
		return err
	}
	for doc, err := range docs.all(ctx) {
		if err != nil {
			return err
		}
		f.documents++
		switch stamp, ok := stamps[doc.ID]; {
		case !ok:
			f.differ("%q is missing from the index", doc.ID)
		case stamp != doc.stamp():
			f.differ("%q is at %s in the index and at %s in the database", doc.ID, stamp, doc.stamp())
		}
		delete(stamps, doc.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(stamps)) {
		f.differ("%q is in the index and not in the database", id)
	}
	return nil
}

// search looks for words by full-text search. Each is in one document only.
func (f *findings) search(ctx context.Context, docs *store, words *index) error {
	for doc, err := range docs.someEdited(ctx, sampled) {
		if err != nil {
			return err
		}
		f.words++
		found, err := words.search(doc.Word)
		if err != nil {
			return err
		}
		if !slices.Equal(found, []string{doc.ID}) {
			f.differ("a search for %s finds %q and not just %q", doc.Word, found, doc.ID)
		}
	}
	return nil
}

func (f *findings) differ(format string, args ...any) {
	f.differences = append(f.differences, fmt.Sprintf(format, args...))
}
