package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace"
)

// errDeclined means that a question was not answered with yes. Nothing was changed.
var errDeclined = &millrace.Error{
	Code: "declined", Message: "nothing was changed",
	Hint: "Answer with y, or add --yes.",
}

// ask returns nil if the question is answered with yes, or need not be asked. Standard
// output is left to the result.
func (a *app) ask(ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case a.json:
		return errDeclined.Errorf("this needs a confirmation").WithHint("Add --yes: with --json nothing is asked.")
	}
	if a.chosen != nil && a.chosen.context != "" {
		question += " The context is " + a.chosen.context + "."
	}
	a.unanswered = true
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case line := <-answers:
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(a.stderr) // the line of the question is still open
		}
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			return errDeclined
		}
		a.unanswered = false
		return nil
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return context.Cause(ctx)
	}
}
