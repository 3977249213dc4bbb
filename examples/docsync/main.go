// Docsync keeps a full-text index in step with a database: documents in SQLite, a Bleve
// index, and a channel of dirty lists (ick) between them that holds the ids of the
// documents that changed.
//
//	load DIR ──▶ SQLite ◀── read the row as it is now ──┐
//	       │                                            │
//	       └─ then ─▶ channel ── reserve: a batch ────▶ index ──▶ Bleve: write, sync
//	                     ▲                              │
//	                     └───────── commit, only then ──┘
//
// Each verb is a process of its own: run index, and kill it whenever you like; run load
// again after files changed; check compares index and database.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/ick"
)

const usage = `docsync [--redis URL] [--data DIR] load DIR | index | search WORD | check`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "docsync:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("docsync", flag.ContinueOnError)
	url := flags.String("redis", "redis://127.0.0.1:6379", "URL of the Redis to use")
	name := flags.String("name", "docsync", "name of the channel")
	data := flags.String("data", ".", "folder of database and index")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := dial.Redis(ctx, *url)
	if err != nil {
		return err
	}
	defer client.Close()
	// Four dirty lists, so that a consumer works on four batches at a time. With a name, a
	// consumer that was killed has its lists back at once when it starts again.
	dirty, err := ick.NewChannel(client, *name, ick.ChannelConfig{Size: 4, Consumer: "indexer"})
	if err != nil {
		return err
	}
	db, err := openDocuments(ctx, *data)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if verb := flags.Arg(0); verb == "load" && flags.NArg() == 2 {
		return load(ctx, db, dirty, flags.Arg(1), stdout)
	}

	index, err := openIndex(*data)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }()
	switch verb := flags.Arg(0); {
	case verb == "index" && flags.NArg() == 1:
		err := dirty.Consume(ctx, ick.ConsumeConfig{}, func(ctx context.Context, batch []ick.Entry) error {
			return apply(ctx, db, index, batch)
		})
		if errors.Is(err, context.Canceled) && !errors.Is(err, ick.ErrUncommitted) {
			return nil
		}
		return err
	case verb == "search" && flags.NArg() == 2:
		return search(index, flags.Arg(1), stdout)
	case verb == "check" && flags.NArg() == 1:
		return check(ctx, db, index, stdout)
	}
	return errors.New("usage: " + usage)
}

// openDocuments opens the database. With the write-ahead log one process reads while
// another one writes.
func openDocuments(ctx context.Context, folder string) (*sql.DB, error) {
	const settings = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)"
	db, err := sql.Open("sqlite", filepath.Join(folder, "documents.db")+settings)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, text BLOB)`)
	return db, err
}

// maxFile is the largest file that is loaded, in bytes.
const maxFile = 1 << 20

// load sets the documents to the text files below a folder, and marks those that changed. It
// forgets documents whose files are gone.
func load(ctx context.Context, db *sql.DB, dirty *ick.Channel, root string, stdout io.Writer) error {
	known, err := documents(ctx, db)
	if err != nil {
		return err
	}
	changed := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)                                          //nolint:gosec // the folder is the user's own; os.Root refuses names that are no UTF-8
		if err != nil || len(text) > maxFile || bytes.IndexByte(text, 0) >= 0 { // not text
			return err
		}
		id, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		before, there := known[id]
		delete(known, id)
		if there && before == stamp(text) {
			return nil
		}
		changed++
		return save(ctx, db, dirty, id, `INSERT OR REPLACE INTO documents (id, text) VALUES (?, ?)`, id, text)
	})
	if err != nil {
		return err
	}
	for id := range known {
		if err := save(ctx, db, dirty, id, `DELETE FROM documents WHERE id = ?`, id); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d documents changed, %d deleted\n", changed, len(known))
	return nil
}

// save changes a document and then marks it. After, never before: the mark could be handled
// before the change is visible. A producer that dies between the two leaves a change
// without a mark; where that matters, write the id to a table in the same transaction, and
// move its rows to the channel.
func save(ctx context.Context, db *sql.DB, dirty *ick.Channel, id, statement string, args ...any) error {
	if _, err := db.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("save %q: %w", id, err)
	}
	_, err := dirty.AddNow(ctx, id)
	return err
}

// documents returns the stamps of all documents by their ids.
func documents(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT id, text FROM documents`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stamps := map[string]string{}
	for rows.Next() {
		var id string
		var text []byte
		if err := rows.Scan(&id, &text); err != nil {
			return nil, err
		}
		stamps[id] = stamp(text)
	}
	return stamps, rows.Err()
}

// stamp identifies a text.
func stamp(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// openIndex opens the index, or makes one. unsafe_batch is off (Bleve's default), so that
// Batch returns when the batch is on disk: a commit follows at once, and a kill must not
// lose committed changes.
func openIndex(folder string) (bleve.Index, error) {
	path := filepath.Join(folder, "index.bleve")
	index, err := bleve.OpenUsing(path, map[string]any{"bolt_timeout": "10s"})
	if !errors.Is(err, bleve.ErrorIndexPathDoesNotExist) {
		return index, err
	}
	stamp := bleve.NewKeywordFieldMapping()
	stamp.Index = false
	mapping := bleve.NewIndexMapping()
	mapping.DefaultMapping.AddFieldMappingsAt("stamp", stamp)
	return bleve.NewUsing(path, mapping, scorch.Name, scorch.Name, map[string]any{"unsafe_batch": false})
}

// apply brings the index in line with the database as it is now. A mark holds only the id, and
// neither the change nor a count. So a batch may run again, as it does after a kill.
func apply(ctx context.Context, db *sql.DB, index bleve.Index, marks []ick.Entry) error {
	batch := index.NewBatch()
	for _, mark := range marks {
		var text []byte
		err := db.QueryRowContext(ctx, `SELECT text FROM documents WHERE id = ?`, mark.Member).Scan(&text)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			batch.Delete(mark.Member)
			continue
		case err != nil:
			return err
		}
		doc := map[string]any{"text": strings.ToValidUTF8(string(text), "\uFFFD"), "stamp": stamp(text)}
		if err := batch.Index(mark.Member, doc); err != nil {
			return fmt.Errorf("index %q: %w", mark.Member, err)
		}
	}
	return index.Batch(batch)
}

func search(index bleve.Index, word string, stdout io.Writer) error {
	query := bleve.NewMatchQuery(word)
	query.SetField("text")
	result, err := index.Search(bleve.NewSearchRequest(query))
	if err != nil {
		return err
	}
	for _, hit := range result.Hits {
		fmt.Fprintln(stdout, hit.ID)
	}
	return nil
}

// check compares every document with the index.
func check(ctx context.Context, db *sql.DB, index bleve.Index, stdout io.Writer) error {
	known, err := documents(ctx, db)
	if err != nil {
		return err
	}
	size, err := index.DocCount()
	if err != nil {
		return err
	}
	request := bleve.NewSearchRequestOptions(bleve.NewMatchAllQuery(), int(size), 0, false)
	request.Fields = []string{"stamp"}
	result, err := index.Search(request)
	if err != nil {
		return err
	}
	wrong := 0
	differ := func(format string, args ...any) { wrong++; fmt.Fprintf(stdout, format+"\n", args...) }
	for _, hit := range result.Hits {
		switch stamp, there := known[hit.ID]; {
		case !there:
			differ("%q is in the index and not in the database", hit.ID)
		case stamp != hit.Fields["stamp"]:
			differ("%q has an old text in the index", hit.ID)
		}
		delete(known, hit.ID)
	}
	for id := range known {
		differ("%q is missing from the index", id)
	}
	if wrong > 0 {
		return fmt.Errorf("index and database differ in %d documents", wrong)
	}
	fmt.Fprintf(stdout, "index and database agree on %d documents\n", len(result.Hits))
	return nil
}
