package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/ick"
)

const (
	// maxFile is the largest file that is loaded, in bytes.
	maxFile = 1 << 20

	// loadBatch is how many documents a transaction brings.
	loadBatch = 200

	// sniffed is how much of a file tells whether it is text, in bytes.
	sniffed = 8000
)

// loaded counts the files of a folder, by what became of them.
type loaded struct{ loaded, binary, large, unreadable int }

// load makes a document of each text file below root, marks it, and returns the
// ids.
func (l *loaded) load(ctx context.Context, root string, docs *store, dirty *ick.Channel, stderr io.Writer) ([]string, error) {
	paths, err := l.walk(root)
	if err != nil {
		return nil, err
	}
	var ids []string
	var batch []document
	flush := func() error {
		if err := docs.put(ctx, batch...); err != nil {
			return err
		}
		added := make([]string, len(batch))
		for i, d := range batch {
			added[i] = d.ID
		}
		ids, batch = append(ids, added...), batch[:0]
		_, err := dirty.AddNow(ctx, added...) // after the transaction: see editor.save
		return err
	}
	bar := newProgress(stderr, "load", len(paths))
	for i, path := range paths {
		if text, ok := l.read(path); ok {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			batch = append(batch, document{ID: filepath.ToSlash(name), Text: text})
		}
		if len(batch) == loadBatch || i == len(paths)-1 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		bar.set(i + 1)
	}
	bar.finish()
	if l.loaded = len(ids); l.loaded == 0 {
		return nil, fmt.Errorf("there are no text files below %s: name another folder with --dir", root)
	}
	return ids, nil
}

// walk returns the regular files below root.
func (l *loaded) walk(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			l.unreadable++
		case entry.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// read returns the content of a file if it is text and not too large. Text need
// not be UTF-8, but it has no NUL near its beginning.
func (l *loaded) read(path string) (text []byte, ok bool) {
	file, err := os.Open(path)
	if err != nil {
		l.unreadable++
		return nil, false
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		l.unreadable++
	case bytes.IndexByte(text[:min(len(text), sniffed)], 0) >= 0:
		l.binary++
	case len(text) > maxFile:
		l.large++
	default:
		return text, true
	}
	return nil, false
}
