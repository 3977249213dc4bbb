package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/connect"
)

// indexerCommand is the argument that makes this program the indexer.
const indexerCommand = "indexer"

// indexer consumes the channel. Consume hands it batches of ids, one from each
// Ick at the same time, and commits each when handle returned without an error.
type indexer struct {
	store  *store
	index  *index
	report io.Writer // a line for each batch: documents, and how many were overtaken
}

// handle brings the index in line with what the database says now. An id is all
// it is given, and all it needs: not what changed, nor how often. So it may run
// again for the same id, as it does after a kill, and do no harm.
func (x *indexer) handle(ctx context.Context, batch []ick.Entry) error {
	docs := make([]document, len(batch))
	for i, mark := range batch {
		var err error
		if docs[i], err = x.store.get(ctx, mark.Member); err != nil {
			return err
		}
	}
	if err := x.index.apply(docs); err != nil {
		return err
	}
	overtaken, err := x.overtaken(ctx, docs)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(x.report, len(docs), overtaken)
	return err
}

// overtaken counts the documents that have changed since they were read. The
// index is behind on those already, and the commit that follows must not take
// away the marks of their changes. For the numbers only.
func (x *indexer) overtaken(ctx context.Context, docs []document) (n int, err error) {
	for _, d := range docs {
		version, err := x.store.version(ctx, d.ID)
		if err != nil {
			return n, err
		}
		if version != d.Version {
			n++
		}
	}
	return n, nil
}

// indexerMain is the process that the parent starts and kills. It ends in peace
// when its standard input does, so it does not outlive the parent either.
func indexerMain(args []string) int {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches both; the parent sees to this one
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if err := consume(ctx, args); err != nil {
		fmt.Fprintf(os.Stderr, "indexer: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// consume indexes until ctx ends. Its arguments are those of keeper.start.
func consume(ctx context.Context, args []string) (err error) {
	if len(args) != 3 {
		return errors.New("only docsync itself starts the indexer")
	}
	url, name, folder := args[0], args[1], args[2]

	docs, err := openStore(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, docs.close()) }()
	words, err := openIndex(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, words.close()) }()
	client, err := connect.Open(url)
	if err != nil {
		return err
	}
	defer client.Close()
	dirty, err := openChannel(client, name)
	if err != nil {
		return err
	}

	x := &indexer{store: docs, index: words, report: os.Stdout}
	if err := dirty.Consume(ctx, ick.ConsumeConfig{}, x.handle); ctx.Err() == nil {
		return err
	}
	return nil
}
