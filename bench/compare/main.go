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
	rounds := flag.Int("rounds", 3, "rounds of each measurement; figures are medians")
	quick := flag.Bool("quick", false, "a tenth of the messages, and one round")
	asJSON := flag.Bool("json", false, "print the figures as JSON")
	write := flag.Bool("write", false, "keep the figures in results.json, and write docs/COMPARED.md and its charts")
	flag.Parse()
	o := options{rounds: *rounds, scale: 1, progress: os.Stderr}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if *quick {
		o.rounds, o.scale = 1, 0.1
	}
	if o.rounds < 1 {
		return errors.New("-rounds must be positive")
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
	r.Machine = describeMachine()
	defer func() { err = errors.Join(err, removeInstalled()) }()
	// What was measured is shown, also if something else failed.
	failed := measureAll(ctx, o, r)
	switch text, err := r.text(); {
	case err != nil:
		return errors.Join(failed, err)
	case *write:
		failed = errors.Join(failed, os.WriteFile(kept, text, 0o600), r.writePage(page))
	case *asJSON:
		fmt.Printf("%s", text)
	default:
		fmt.Print(r.tables())
	}
	return failed
}
