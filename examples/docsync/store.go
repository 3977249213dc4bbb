package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the "sqlite" driver
)

// document is one row of the database.
type document struct {
	ID      string // the file's path below the loaded folder
	Version int64  // of the row's last change, new with each one; 0 when there is no such row
	Text    []byte
	Word    string // a word that only this version has; empty until the first edit
}

// stamp names the exact state of a document. The index stores it.
func (d document) stamp() string {
	sum := sha256.Sum256(d.Text)
	return fmt.Sprintf("%d-%x", d.Version, sum[:8])
}

// store is the database: the truth that the index follows.
type store struct {
	db *sql.DB

	// changes numbers the changes. The one process that writes may count them
	// in memory.
	changes atomic.Int64
}

// openStore opens the database in a folder, and makes it if need be. With the
// write-ahead log, the indexer's process reads while this one writes.
func openStore(ctx context.Context, folder string) (*store, error) {
	const settings = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
	db, err := sql.Open("sqlite", filepath.Join(folder, "documents.db")+settings)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS documents (
		id      TEXT PRIMARY KEY,
		version INTEGER NOT NULL,
		text    BLOB,
		word    TEXT NOT NULL
	)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{db: db}, nil
}

func (s *store) close() error { return s.db.Close() }

// put writes documents in one transaction, each with a new version.
func (s *store) put(ctx context.Context, docs ...document) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, d := range docs {
		_, err := tx.ExecContext(ctx,
			`INSERT OR REPLACE INTO documents (id, version, text, word) VALUES (?, ?, ?, ?)`,
			d.ID, s.changes.Add(1), d.Text, d.Word)
		if err != nil {
			return fmt.Errorf("write %q: %w", d.ID, err)
		}
	}
	return tx.Commit()
}

func (s *store) delete(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM documents WHERE id = ?`, id)
	return err
}

// get returns a document as it is now, with Version 0 when there is none.
func (s *store) get(ctx context.Context, id string) (document, error) {
	d := document{ID: id}
	err := s.db.QueryRowContext(ctx,
		`SELECT version, text, word FROM documents WHERE id = ?`, id).Scan(&d.Version, &d.Text, &d.Word)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return d, err
}

// version returns the version of a document, 0 when there is none.
func (s *store) version(ctx context.Context, id string) (version int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT version FROM documents WHERE id = ?`, id).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return version, err
}

// all goes through the documents in the order of their ids.
func (s *store) all(ctx context.Context) iter.Seq2[document, error] {
	return s.query(ctx, `SELECT id, version, text, word FROM documents ORDER BY id`)
}

// someEdited returns at most n documents that were edited, chosen at random.
func (s *store) someEdited(ctx context.Context, n int) iter.Seq2[document, error] {
	return s.query(ctx, `SELECT id, version, text, word FROM documents WHERE word != '' ORDER BY random() LIMIT ?`, n)
}

func (s *store) query(ctx context.Context, text string, args ...any) iter.Seq2[document, error] {
	return func(yield func(document, error) bool) {
		rows, err := s.db.QueryContext(ctx, text, args...)
		if err != nil {
			yield(document{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var d document
			err := rows.Scan(&d.ID, &d.Version, &d.Text, &d.Word)
			if !yield(d, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(document{}, err)
		}
	}
}
