package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/cmd/millrace/watch"
)

// watchable is a command that shows something, and can show it again and again.
type watchable struct {
	Watch time.Duration `bare:"2s" placeholder:"DURATION" help:"Show it again after each DURATION, until ctrl-c. --watch alone is --watch=2s."`
}

func (w watchable) interval() time.Duration { return w.Watch }

// minWatch is the shortest time between two looks.
const minWatch = 100 * time.Millisecond

// watch calls look again and again until ctx ends. On a terminal each result replaces the one
// before; in a file or a pipe an empty line is between them, or with --json none. An error is
// shown like a result, but a wrong command line ends it.
func (a *app) watch(ctx context.Context, interval time.Duration, line string, look func() error, fail func(error) int) int {
	if interval < minWatch {
		return fail(errUsage.Errorf("--watch %s is less than %s", interval, minWatch))
	}
	out, errs := a.stdout, a.stderr
	defer func() { a.stdout, a.stderr = out, errs }()
	a.keep = true
	defer a.release()
	var screen *watch.Screen
	if !a.json {
		screen = watch.NewScreen(out)
	}
	defer screen.Close()
	drawn := false
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		var result, said bytes.Buffer
		a.stdout, a.stderr = &result, &said
		code, err := 0, look()
		if err != nil && !errors.Is(err, errPrinted) {
			code = fail(err)
		}
		a.stdout, a.stderr = out, errs
		switch {
		case ctx.Err() != nil: // the look was cut short
			return 0
		case code == 2:
			screen.Close()
			_, _ = errs.Write(said.Bytes())
			return code
		case screen != nil:
			screen.Draw(fmt.Sprintf("Every %s: %s", interval, line), time.Now().Format(time.TimeOnly), result.String()+said.String())
		default:
			if drawn && !a.json && result.Len() > 0 {
				fmt.Fprintln(out)
			}
			drawn = drawn || result.Len() > 0
			_, _ = errs.Write(said.Bytes())
			if _, err := out.Write(result.Bytes()); err != nil {
				return fail(err) // standard output has no reader any more
			}
		}
		select {
		case <-ctx.Done():
			return 0
		case <-next.C:
		}
	}
}

// kept is a client that stays open between looks.
type kept struct{ rueidis.Client }

// Close does nothing: the app closes the client when it has looked for the last time.
func (kept) Close() {}

// release closes the client that was kept.
func (a *app) release() {
	if a.kept != nil {
		a.kept.Close()
	}
	a.keep, a.kept = false, nil
}
