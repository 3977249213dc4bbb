package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	if text := os.Getenv(asChild); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// kept is where -write keeps the figures, and page where it shows them.
const (
	kept = "results.json"
	page = "../../docs/COMPARED.md"
)

func run(ctx context.Context) (err error) {
	only := flag.String("only", "", "measure only systems and measurements with one of these in their names, separated by commas")
	rounds := flag.Int("rounds", 3, "rounds of each measurement; with 0, -write writes what was kept")
	quick := flag.Bool("quick", false, "a tenth of the messages, and one round")
	asJSON := flag.Bool("json", false, "print the figures as JSON")
	against := flag.String("against", "", "a file that -json wrote, for example at another commit: print both side by side, in Markdown")
	write := flag.Bool("write", false, "keep the figures in results.json, and write docs/COMPARED.md and its charts")
	flag.Parse()
	o := options{rounds: *rounds, scale: 1, progress: os.Stderr}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if *quick {
		o.rounds, o.scale = 1, 0.1
	}
	if o.rounds < 0 || o.rounds == 0 && !*write {
		return errors.New("-rounds must be positive, or 0 with -write")
	}
	if *quick && *write {
		return errors.New("-write keeps figures of whole measurements: leave out -quick")
	}
	var before *results
	if *against != "" {
		if before, err = loadResults(*against); err != nil {
			return err
		}
	}
	if before != nil && (*write || *asJSON) {
		return errors.New("-against prints a comparison: leave out -write and -json")
	}
	r := newResults()
	if *write {
		if r, err = loadResults(kept); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if r == nil {
			r = newResults()
		}
	}
	// The results so far are shown, also if a later measurement failed.
	var failed error
	if *write {
		o.keep = (*results).keep
	}
	if o.rounds > 0 {
		defer func() { err = errors.Join(err, removeInstalled()) }()
		r.Machine = describeMachine()
		failed = measureAll(ctx, o, r)
	}
	switch {
	case *write:
		return errors.Join(failed, r.keep(), r.writePage(page))
	case before != nil:
		fmt.Print(r.against(before))
		return failed
	case *asJSON:
		text, err := r.text()
		fmt.Printf("%s", text)
		return errors.Join(failed, err)
	default:
		fmt.Print(r.tables())
		return failed
	}
}

// keep stores the figures for the next run with -write.
func (r *results) keep() error {
	text, err := r.text()
	return errors.Join(err, os.WriteFile(kept, text, 0o600))
}
