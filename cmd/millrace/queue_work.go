package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
)

type queueWork struct {
	queueName
	Exec        string        `required:"" placeholder:"COMMAND" help:"What the shell (/bin/sh) runs for each message."`
	Concurrency int           `default:"1" placeholder:"N" help:"How many at once, up to 1,000. Defaults to ${default}."`
	Timeout     time.Duration `placeholder:"DURATION" help:"Stop a command after it; its message comes again. Defaults to no limit."`
	Grace       time.Duration `default:"10s" placeholder:"DURATION" help:"How long a command may go on after SIGTERM. Defaults to ${default}."`
	Visibility  time.Duration `default:"30s" placeholder:"DURATION" help:"After how long messages come again when this machine dies. Defaults to ${default}."`
	MaxAttempts int           `default:"5" placeholder:"N" help:"After how many deliveries a message is dead. Defaults to ${default}."`
	Drain       time.Duration `default:"30s" placeholder:"DURATION" help:"How long commands may go on after SIGINT or SIGTERM. Defaults to ${default}."`
}

func (*queueWork) Help() string {
	return `The command gets the body on standard input, and in its environment MILLRACE_QUEUE, MILLRACE_ID, MILLRACE_TENANT, MILLRACE_ATTEMPT, and MILLRACE_HEADERS, a JSON object. Its output is this command's. A message may come more than once, so the work must be idempotent.

    exit code 0      done
    exit code 65     dead at once, with the last line of standard error as the reason
    all others       it comes again: after a second, two, four, up to ten minutes

If the message is cancelled or delivered to another reader, and at --timeout, the command and its process group get SIGTERM, and SIGKILL after --grace. It comes again then, whatever the exit code. What the command leaves behind in the group may go on for a second, and is then stopped likewise; when all are gone, the message is settled. SIGINT and SIGTERM end reading: what runs may go on for --drain.

Examples:

    millrace queue work mails --exec './send-mail'
    millrace queue work images --exec 'convert - "/srv/$MILLRACE_ID.png"' --concurrency 4 --timeout 5m`
}

func (c *queueWork) Run(ctx context.Context, a *app) error {
	bad := millrace.ErrBadArgument
	switch {
	case c.Concurrency < 1 || c.Concurrency > 1000:
		return bad.Errorf("1 to 1000 commands run at once, not %d", c.Concurrency)
	case c.MaxAttempts < 1:
		return bad.Errorf("a message is delivered once at least, not %d times", c.MaxAttempts)
	case c.Timeout < 0 || c.Grace < 0 || c.Drain < 0:
		return bad.Errorf("--timeout, --grace and --drain cannot be negative")
	}
	if err := checkVisibility(c.Visibility); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{MaxAttempts: c.MaxAttempts, Logger: a.logger()}, func(q *fairqueue.Queue) (any, table, error) {
		guard, err := newGuard()
		if err != nil {
			return nil, nil, errNoStart.Wrap(err)
		}
		defer guard.close()
		drain := max(c.Drain, time.Nanosecond) // 0 is the default there
		cfg := fairqueue.ConsumeConfig{Concurrency: c.Concurrency, Visibility: c.Visibility, Timeout: c.Timeout, Drain: drain}
		err = q.Consume(ctx, cfg, func(ctx context.Context, m fairqueue.Message) error {
			return c.handle(ctx, a, guard, m)
		})
		return nil, nil, unlessInterrupted(ctx, err, fairqueue.ErrUnsettled)
	})
}

// unlessInterrupted returns why Consume ended, or nil if that was a signal, with which the command ends, and
// everything was settled.
func unlessInterrupted(ctx context.Context, err, unsettled error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) && !errors.Is(err, unsettled) {
		return nil
	}
	return err
}

// handle runs the command for a message.
func (c *queueWork) handle(ctx context.Context, a *app, guard *guard, m fairqueue.Message) error {
	headers, err := json.Marshal(ops.OfHeaders(m.Headers))
	if err != nil {
		return err
	}
	env, err := variables(map[string]string{
		"QUEUE": string(c.Name), "ID": m.ID, "TENANT": m.Tenant,
		"ATTEMPT": strconv.Itoa(m.Attempt), "HEADERS": string(headers),
	})
	if err != nil {
		return fairqueue.NoRetry(err)
	}
	end, reason, err := a.runShell(ctx, guard, c.Exec, c.Grace, env, m.Body)
	switch {
	case errors.Is(err, syscall.E2BIG): // the headers are too many
		return fairqueue.NoRetry(err)
	case err != nil:
		return err
	case end.stopped:
		return context.Cause(ctx)
	case end.code == 0:
		return nil
	case end.code == exitBadData:
		return fairqueue.NoRetry(badData(reason))
	case reason != "":
		return fmt.Errorf("%w: %s", programError{code: end.code}, reason)
	}
	return programError{code: end.code}
}

// badData is the error of exit code 65.
func badData(reason string) error {
	if reason == "" {
		return programError{code: exitBadData}
	}
	return errors.New(reason) //nolint:err113 // the program gave the reason
}

// variables returns an environment, or an error if a value cannot be in one. Left out, the command
// would take the value of this process's own environment, or none, for the message's.
func variables(values map[string]string) ([]string, error) {
	var env []string
	for name, value := range values {
		if strings.Contains(value, "\x00") {
			return nil, millrace.ErrBadArgument.Errorf("MILLRACE_%s would have a zero byte, which no environment can pass: %q", name, value)
		}
		env = append(env, "MILLRACE_"+name+"="+value)
	}
	return env, nil
}
