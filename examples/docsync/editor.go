package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/millrace/millrace/ick"
)

// edits counts changes by their kind.
type edits struct{ rewritten, deleted, created int }

// editor is the people who work on the documents. A few documents are in much
// demand, most are hardly touched.
type editor struct {
	store *store
	dirty *ick.Channel
	ids   []string // the most edited first
	rank  *rand.Zipf
	words int
}

func newEditor(docs *store, dirty *ick.Channel, ids []string) *editor {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return &editor{store: docs, dirty: dirty, ids: ids, rank: rand.NewZipf(random, 1.1, 10, uint64(len(ids)-1))}
}

// edit makes one change: mostly a new text with a word that no other document
// has, at times a deletion. A deleted document that is picked again is created
// again.
func (e *editor) edit(ctx context.Context, done *edits) error {
	id := e.ids[e.rank.Uint64()]
	doc, err := e.store.get(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case doc.Version == 0:
		done.created++
	case rand.IntN(20) == 0:
		done.deleted++
		return e.save(ctx, id, e.store.delete(ctx, id))
	default:
		done.rewritten++
	}
	e.words++
	doc.Word = fmt.Sprintf("docsync%dedit", e.words)
	doc.Text = replaceLine(doc.Text, doc.Word)
	return e.save(ctx, id, e.store.put(ctx, doc))
}

// save marks a document after its change was written.
//
// After, never before: a mark made first may be worked off before the change is
// there to be seen. A producer that dies between the two leaves a change without
// a mark; where that matters, write the id to a table in the change's own
// transaction, and let a loop of yours move the rows of that table to the channel.
func (e *editor) save(ctx context.Context, id string, written error) error {
	if written != nil {
		return written
	}
	_, err := e.dirty.AddNow(ctx, id)
	return err
}

// replaceLine puts a word in the place of a random line.
func replaceLine(text []byte, word string) []byte {
	lines := bytes.Split(text, []byte("\n"))
	lines[rand.IntN(len(lines))] = []byte(word)
	return bytes.Join(lines, []byte("\n"))
}
