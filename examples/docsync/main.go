// Docsync keeps a full-text index in step with a database: documents in SQLite,
// a Bleve index, and a channel of Icks between them that knows which documents
// changed.
//
//	files ── load ──┐
//	                ├─▶ SQLite ◀── read the row as it is now ──┐
//	chance ─ edit ──┘                                          │
//	           │                                            indexer ─▶ Bleve
//	           └─ then ─▶ channel ── reserve: batches of ids ▶ │    write, sync
//	                       ▲                                   │
//	                       └────────── commit, only then ──────┘
//
// It loads a folder of text files and edits the documents at random, while the
// indexer, a process of its own, works and is killed with SIGKILL again and
// again. It waits until no mark is left, and then compares index and database
// document by document. The exit code is 0 when they agree, 1 when they do not
// or something failed, 2 for wrong flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == indexerCommand {
		os.Exit(indexerMain(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("docsync", flag.ContinueOnError)
	flags.SetOutput(stderr)
	source := flags.String("dir", "", "folder of text files to load (default: the source tree of Go)")
	url := flags.String("redis", "", "Redis to use, redis://HOST:PORT (default: a private one that is gone at the end)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "docsync: unexpected argument %q\nTry: docsync --dir %s\n", flags.Arg(0), flags.Arg(0))
		return exitUsage
	}

	code, err := docsync(ctx, job{source: *source, redis: *url, edits: 4000, pause: 5 * time.Millisecond, kills: 10}, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "docsync: %v\n", err)
		if hint := millrace.Hint(err); hint != "" {
			fmt.Fprintf(stderr, "Try: %s\n", hint)
		}
		return exitFailed
	}
	return code
}

// docsync does a job in a temporary folder and reports on it.
func docsync(ctx context.Context, j job, stdout, stderr io.Writer) (code int, err error) {
	if j.source == "" {
		if j.source, err = goSource(ctx); err != nil {
			return exitFailed, err
		}
	}
	if j.data, err = os.MkdirTemp("", "docsync-"); err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.data)) }()

	done, err := j.run(ctx, stderr)
	if err != nil {
		return exitFailed, err
	}
	found, err := check(ctx, j.data)
	if err != nil {
		return exitFailed, err
	}
	return report(stdout, done, found), nil
}

// goSource returns the folder of Go's own source.
func goSource(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("where is the source tree of Go? give a folder with --dir: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}

// report prints what happened and the verdict, and returns the exit code.
func report(w io.Writer, d outcome, found findings) int {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	row("loaded", "%d documents; skipped %d binary, %d larger than %d KiB, %d unreadable",
		d.files.loaded, d.files.binary, d.files.large, maxFile>>10, d.files.unreadable)
	row("edited", "%d times: %d rewritten, %d deleted, %d created again",
		d.edits.rewritten+d.edits.deleted+d.edits.created, d.edits.rewritten, d.edits.deleted, d.edits.created)
	row("marks", "%d, of which %d folded into one that waited", d.marks.New+d.marks.Folded, d.marks.Folded)
	row("killed", "the indexer %d times, %d of them with a batch in its hands", d.kills, d.interrupted)
	row("indexed", "%d documents in %d batches", d.work.documents, d.work.batches)
	row("overtaken", "%d of them changed in the database while their batch was being indexed", d.work.overtaken)
	row("checked", "%d documents, and %d words by full-text search", found.documents, found.words)
	row("took", "%.1f s", d.took.Seconds())
	table.Flush()

	if len(found.differences) == 0 {
		fmt.Fprintln(w, "\nindex and database agree")
		return exitOK
	}
	fmt.Fprintf(w, "\nindex and database differ in %d ways:\n", len(found.differences))
	for _, difference := range found.differences {
		fmt.Fprintln(w, " ", difference)
	}
	return exitFailed
}
