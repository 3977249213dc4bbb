package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/registry"
)

// app is the environment of every command.
type app struct {
	redis  string // the --redis flag
	named  string // the --context flag
	json   bool   // the --json flag
	env    func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	quiet  bool // nothing is logged

	logging *sync.Mutex // of the lines of loggers; nil before the first

	parsed *kong.Context // the command line

	chosen *choice // the server that the command works on; nil until first needed

	entry      *audit.Entry // of the command in the audit log; nil for none
	unanswered bool         // a question is not answered with yes, so nothing is changed

	keep bool           // one client serves all looks of --watch
	kept rueidis.Client // it; nil before the first

	play func(context.Context, chaos.Config) (chaos.Report, error) // chaos.Run, but for tests
}

// given reports whether the command line has a flag.
func (a *app) given(flag string) bool {
	return slices.ContainsFunc(a.parsed.Flags(), func(f *kong.Flag) bool { return f.Name == flag && f.Set })
}

// open connects to the Redis or the fleet at hand. Close the client when done.
func (a *app) open(ctx context.Context) (rueidis.Client, error) {
	if a.kept != nil {
		return kept{a.kept}, nil
	}
	client, err := a.connect(ctx)
	if err != nil || !a.keep {
		return client, err
	}
	a.kept = client
	return kept{client}, nil
}

func (a *app) connect(ctx context.Context) (rueidis.Client, error) {
	url := a.url()
	switch {
	case url == "":
		return nil, a.noURL(dial.ErrURL.Errorf("this command needs to know which Redis to work on").WithHint("Add --redis redis://HOST:PORT (or unix:///path/to/socket, fleet://HOST:PORT, etcd://HOST:PORT/FLEET), set MILLRACE_REDIS_URL, or name servers with: millrace context set"))
	case open.Is(url):
		f, err := a.openFleet(ctx)
		if err != nil {
			return nil, err
		}
		return &settling{f.Client()}, nil
	}
	client, err := dial.Redis(ctx, url, oneConnection)
	if err != nil {
		return nil, err
	}
	return &settling{client}, nil
}

// oneConnection to each server: a command does one thing at a time.
func oneConnection(opt *rueidis.ClientOption) { opt.PipelineMultiplex = -1 }

// settling is a client that does not close before its structures are registered: a
// command may end right after it wrote to a queue.
type settling struct{ rueidis.Client }

// settleTimeout is the limit of that wait.
const settleTimeout = 250 * time.Millisecond

// Close closes the client.
func (s *settling) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	registry.Settle(ctx, s)
	s.Client.Close()
}

// logger writes progress and warnings to standard error: lines for people, or
// lines of JSON. A quiet app logs nothing.
func (a *app) logger() *slog.Logger { return a.loggerFrom(slog.LevelInfo) }

// loggerFrom is logger for records of a level or a higher one.
func (a *app) loggerFrom(level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	switch {
	case a.quiet:
		return slog.New(slog.DiscardHandler)
	case a.json:
		return slog.New(slog.NewJSONHandler(a.logs(), options))
	}
	return slog.New(slog.NewTextHandler(a.logs(), options))
}

// logs returns standard error for loggers. The connections of a fleet have another logger than
// the command, and their lines come at any time: one is written at a time.
func (a *app) logs() io.Writer {
	if a.logging == nil {
		a.logging = new(sync.Mutex)
	}
	return oneAtATime{a.stderr, a.logging}
}

type oneAtATime struct {
	io.Writer

	mu *sync.Mutex
}

func (w oneAtATime) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(line)
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
	case <-ctx.Done(): // standard input may stay open for ever
		return nil, context.Cause(ctx)
	}
}

// table writes a result for people; its columns end in tabs.
type table = func(w io.Writer)

// says is a table of one line.
func says(format string, args ...any) table {
	return func(w io.Writer) { fmt.Fprintf(w, format+"\n", args...) }
}

// tableOfDeleted says what became of a structure's keys.
func tableOfDeleted(doc ops.Deleted) table {
	if doc.Deleted == 0 {
		return says("there was nothing to delete")
	}
	return says("%s deleted", readable.Count(doc.Deleted, "key"))
}

// opener makes a value of a structure. Without a client it only checks names and settings.
type opener[T any] func(client rueidis.Client) (T, error)

// on makes a value of a structure on the Redis at hand, has do work with it, enters that in the
// audit log if it is a change by people, and prints the result. It makes one without a connection
// before, to check names and settings.
func on[T any](ctx context.Context, a *app, open opener[T], do func(T) (any, table, error)) error {
	if _, err := open(nil); err != nil {
		return err
	}
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	value, err := open(client)
	if err != nil {
		return err
	}
	doc, table, err := do(value)
	a.noteCommand(ctx, client, err)
	return a.show(doc, table, err)
}

// besides is an error, or none, that does not keep a result from being printed.
type besides struct{ error }

// show prints the result of a command, unless it failed or printed by itself.
func (a *app) show(doc any, table table, err error) error {
	if b, ok := err.(besides); ok { //nolint:errorlint // it is never wrapped
		return errors.Join(a.print(doc, table), b.error)
	}
	if err != nil || doc == nil {
		return err
	}
	return a.print(doc, table)
}

// list prints the names that a package lists on the Redis at hand, sorted. Of an incomplete
// list, it prints the names that there are, and fails.
func (a *app) list(ctx context.Context, what string, list func(context.Context, rueidis.Client) iter.Seq2[string, error],
	doc func(names []jsontype.Text, part ops.Incomplete) any,
) error {
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	names, missing, err := ops.Names(list(ctx, client), nil)
	if err != nil && missing.Incomplete == "" {
		return err
	}
	return cmp.Or(a.print(doc(names, missing), func(w io.Writer) {
		if len(names) == 0 {
			fmt.Fprintf(w, "there are no %s\n", what)
		}
		for _, name := range names {
			fmt.Fprintln(w, name)
		}
	}), err)
}

// print writes a result: doc as one line of JSON, or the output of table with
// its columns, which end in tabs, aligned.
func (a *app) print(doc any, table table) error {
	if a.json {
		return jsontype.Encode(a.stdout, doc)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}
