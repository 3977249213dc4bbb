package main

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"text/tabwriter"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/cmd/millrace/demo"
	"github.com/millrace/millrace/internal/connect"
)

// app is what every command works with.
type app struct {
	redis  string // the --redis flag
	json   bool   // the --json flag
	env    func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	play func(context.Context, demo.Config) (demo.Report, error) // demo.Run, but for tests
}

// open connects to the Redis that the command line or the environment names.
// Close the client when done.
func (a *app) open(ctx context.Context) (rueidis.Client, error) {
	url := a.redis
	if url == "" {
		url = a.env("MILLRACE_REDIS_URL")
	}
	if url == "" {
		err := connect.ErrURL.Saying("this command needs to know which Redis to work on")
		err.Hint = "Add --redis redis://HOST:PORT (or unix:///path/to/socket), or set MILLRACE_REDIS_URL."
		return nil, err
	}

	// Connecting knows no context; an interrupt need not wait for it.
	type opened struct {
		client rueidis.Client
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		client, err := connect.Open(url)
		done <- opened{client, err}
	}()
	select {
	case o := <-done:
		return o.client, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// input reads standard input to its end.
func (a *app) input(ctx context.Context) ([]byte, error) {
	type read struct {
		bytes []byte
		err   error
	}
	done := make(chan read, 1)
	go func() {
		b, err := io.ReadAll(a.stdin)
		done <- read{b, err}
	}()
	select {
	case r := <-done:
		return r.bytes, r.err
	case <-ctx.Done(): // nobody may ever write there
		return nil, context.Cause(ctx)
	}
}

// names returns what a package lists on the Redis at hand, sorted.
func (a *app) names(ctx context.Context, list func(context.Context, rueidis.Client) iter.Seq2[string, error]) ([]text, error) {
	client, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var names []string
	for name, err := range list(ctx, client) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return texts(names), nil
}

// print writes a result: doc as one line of JSON, or what table writes, with
// its columns, which end in tabs, aligned.
func (a *app) print(doc any, table func(w io.Writer)) error {
	if a.json {
		return encode(a.stdout, doc)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// encode writes a document as one line. Members full of "&" and "<" stay
// readable: this JSON is never part of a web page.
func encode(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}
