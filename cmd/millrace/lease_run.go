package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/watch"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
)

type leaseRun struct {
	ops.Lease
	Command        []string      `arg:"" name:"command" help:"The program and its arguments, behind --."`
	TTL            time.Duration `name:"ttl" default:"30s" placeholder:"DURATION" help:"After how long others may have the lease when this machine dies. It is renewed after each third of it. Defaults to ${default}."`
	Wait           time.Duration `placeholder:"DURATION" help:"How long to wait while another holder has it. Defaults to not at all."`
	OncePer        time.Duration `placeholder:"DURATION" help:"Run it at most once in each period of this length, on whichever machine is first, and again if it fails. Periods begin at midnight UTC."`
	Timeout        time.Duration `default:"24h" placeholder:"DURATION" help:"Stop the program after it. Defaults to ${default}."`
	Grace          time.Duration `default:"10s" placeholder:"DURATION" help:"How long the program may go on after SIGTERM. Defaults to ${default}."`
	Metadata       string        `placeholder:"TEXT" help:"A note about the holder, shown to others. Defaults to the host's name."`
	AllowEvictable bool          `help:"Accept a server that may evict the lease when its memory is full: for leases that only save work."`
}

func (*leaseRun) Help() string {
	return `The program has this command's standard input and output, and in its environment MILLRACE_LEASE and MILLRACE_FENCE. While it runs the lease is renewed. If the lease is lost, the program gets SIGKILL at once, since another holder may have started. At --timeout, and when this command gets SIGINT or SIGTERM, the program gets SIGTERM, and SIGKILL after --grace. These signals reach its whole process group, unless standard input is a terminal. What the program leaves behind in the group may go on for a second, and is then stopped likewise; when all are gone, the lease is released. When this command is killed, a second process of it kills the group.

It exits with the program's exit code, or with 128 and the number of the signal that ended it; with 75 if another holder has the lease, with 124 if the program was stopped because of --timeout or because the lease was lost, or by a signal to this command though it ended with 0, and with 126 or 127 if it could not be started.

With --once-per a program that failed or was stopped runs again with the next call, so call it often: each minute on each of three machines. A period that is done exits with 0.

Examples:

    millrace lease run deploy --wait 5m -- ./deploy.sh
    millrace lease run nightly --once-per 24h -- ./report --all`
}

func (c *leaseRun) Run(ctx context.Context, a *app) error {
	bad := millrace.ErrBadArgument
	switch {
	case c.Wait < 0:
		return bad.Errorf("cannot wait for %s", c.Wait)
	case c.OncePer < 0:
		return bad.Errorf("a period cannot last %s", c.OncePer)
	case c.OncePer > 0 && c.Wait > 0:
		return bad.Errorf("--once-per does not wait: call it again later")
	case c.Timeout <= 0 || c.Grace < 0:
		return bad.Errorf("cannot stop the program after %s and %s", c.Timeout, c.Grace)
	}
	cfg := lease.Config{AllowEvictable: c.AllowEvictable, MaxHold: untilReleased}
	return on(ctx, a, openLease(c.Lease, cfg, names.CheckLeaseTTL(c.TTL)), func(l ops.OneLease) (any, table, error) {
		if c.OncePer > 0 {
			return nil, nil, c.result(c.once(ctx, a, l.Of, l.Name))
		}
		return nil, nil, c.result(c.hold(ctx, a, l.Of, l.Name))
	})
}

// untilReleased renews a lease for as long as its program is there: --timeout and --grace end
// it, but for one that survives SIGKILL.
const untilReleased = 100 * 366 * 24 * time.Hour

// releaseWithin is for how long a release is repeated while there is no answer.
const releaseWithin = 10 * time.Second

// hold runs the program under the lease.
func (c *leaseRun) hold(ctx context.Context, a *app, l *lease.Locker, name string) error {
	host, _ := os.Hostname() // else there is no note
	held, err := l.Acquire(ctx, name, c.TTL, lease.AcquireConfig{Wait: c.Wait, MaxHold: untilReleased, Metadata: cmp.Or(c.Metadata, host)})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	err = c.run(ctx, held.Context(), a, name, held.Fence)
	if released := c.release(ctx, a, held); err == nil {
		err = released
	}
	return err
}

// release ends the lease after its program. It fails only if the lease was lost or is broken: one
// that Redis could not be told to release ends by itself, and the program had it.
func (c *leaseRun) release(ctx context.Context, a *app, held *lease.Lease) error {
	err := held.Release(ctx)
	if !retry.NoAnswer(err) {
		return err
	}
	for until := time.Now().Add(min(c.TTL, releaseWithin)); retry.NoAnswer(err) && time.Now().Before(until) && retry.Sleep(ctx, time.Second); {
		err = held.Release(ctx)
	}
	if retry.NoAnswer(err) {
		a.logger().WarnContext(ctx, "the lease was not released: it ends by itself", "lease", held.Name, "within", c.TTL.String(), "error", err)
	}
	return nil // an answer is that it is released, or that it was meanwhile
}

// once runs the program under the lease, unless it has succeeded in this period.
func (c *leaseRun) once(ctx context.Context, a *app, l *lease.Locker, name string) error {
	// An interrupt ends the way to the lease. Later it stops the program, under a lease that lasts.
	way, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	arrive := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	succeeded := false
	ran, err := l.Once(way, name, c.TTL, lease.Every(c.OncePer), func(held context.Context, fence int64) error {
		if !arrive() {
			return context.Cause(ctx)
		}
		err := c.run(ctx, held, a, name, fence)
		succeeded = err == nil
		return err
	})
	switch {
	case err == nil && !ran:
		a.logger().InfoContext(ctx, "not run: it is done in this period", "lease", name)
	case succeeded && retry.NoAnswer(err):
		err = millrace.ErrUncertain.Errorf("the program succeeded, and no answer tells whether that is recorded: %s", retry.Bare(err)).
			WithHint("If it is not, the next call runs the program again.")
	}
	return err
}

// run runs the program until it ends, or must not go on.
func (c *leaseRun) run(ctx, held context.Context, a *app, name string, fence int64) error {
	p := program{
		args: c.Command, stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, grace: c.Grace, log: a.logger(),
		env: []string{"MILLRACE_LEASE=" + name, "MILLRACE_FENCE=" + strconv.FormatInt(fence, 10)},
	}
	if !watch.IsTerminal(a.stdin) {
		var err error
		if p.guard, err = newGuard(); err != nil {
			return programError{exitNoStart, errNoStart.Wrap(err)}
		}
		defer p.guard.close()
	}
	stop, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	end, err := p.run(stop, held)
	switch {
	case err != nil:
		return programError{end.code, err}
	case end.stopped && held.Err() != nil:
		return context.Cause(held)
	case end.stopped && errors.Is(stop.Err(), context.DeadlineExceeded):
		return programError{exitStopped, millrace.ErrTimeout.Errorf("the program ran for %s and was stopped", readable.Duration(c.Timeout))}
	case end.stopped && end.code == 0:
		return programError{exitStopped, context.Cause(ctx)}
	case end.code != 0:
		return programError{end.code, nil}
	}
	return nil
}

// result gives an error of the lease the exit code that tells it from one of the program.
func (*leaseRun) result(err error) error {
	switch {
	case errors.Is(err, lease.ErrHeld):
		return programError{exitHeld, inFlags(err)}
	case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrExpired):
		return programError{exitStopped, err}
	}
	return inFlags(err)
}
