package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
)

// leaseCommands is the noun lease.
type leaseCommands struct {
	Acquire leaseAcquire `cmd:""`
	Refresh leaseRefresh `cmd:""`
	Release leaseRelease `cmd:""`
	Show    leaseShow    `cmd:""`
	Ls      leaseLs      `cmd:""`
	Run     leaseRun     `cmd:"" help:"Run a program while holding a lease, or once in a period on one of several machines."`
}

func (*leaseCommands) Help() string {
	return `A lease has at most one holder, until its deadline by the server's clock or until it is released. It outlives the command that acquired it; its token is needed to refresh and release it. Its fence grows with each acquisition, so that the protected resource can refuse a late holder.

    free ──▶ acquire ──▶ held ──▶ release, or the deadline ──▶ free
                         ▲  │
                         └──┘ refresh

Examples:

    millrace lease run nightly --once-per 24h -- ./report --all
    millrace lease acquire nightly --ttl 10m --metadata "$HOSTNAME"
    millrace lease refresh nightly --token TOKEN --ttl 10m
    millrace lease release nightly --token TOKEN
    millrace lease show nightly`
}

// openLease makes a locker for a lease, unless a field of the command is wrong.
func openLease(of ops.Lease, cfg lease.Config, wrong ...error) opener[ops.OneLease] {
	cfg.Logger = slog.New(slog.DiscardHandler) // a server that may evict leases is refused, or was accepted
	return func(c rueidis.Client) (ops.OneLease, error) {
		one := ops.OneLease{Name: string(of.Name)}
		err := cmp.Or(append(wrong, names.CheckLease(one.Name))...)
		if err == nil {
			one.Of, err = lease.New(c, cfg)
		}
		return one, err
	}
}

type leaseAcquire struct {
	ops.Lease
	ops.Acquire
}

func (*leaseAcquire) Help() string {
	return `The lease stays after the command has ended; only refresh renews it. A script keeps the token that is printed:

    token=$(millrace lease acquire nightly --ttl 10m --json | jq -r .token)`
}

func (c *leaseAcquire) Run(ctx context.Context, a *app) error {
	if c.Wait.Duration < 0 {
		return millrace.ErrBadArgument.Errorf("cannot wait for %s", c.Wait.Duration)
	}
	cfg := lease.Config{AllowEvictable: c.AllowEvictable}
	return on(ctx, a, openLease(c.Lease, cfg, names.CheckLeaseTTL(c.TTL.Duration)), func(l ops.OneLease) (any, table, error) {
		token := leaseToken(rand.Text())
		held, err := l.Of.Acquire(ctx, l.Name, c.TTL.Duration, lease.AcquireConfig{Wait: c.Wait.Duration, Metadata: string(c.Metadata), Token: token})
		if err == nil {
			err = c.print(a, held)
		}
		if err == nil {
			return nil, nil, nil
		}
		if retry.NoAnswer(err) { // it may be held all the same, and its token was not printed
			_ = l.Of.Release(ctx, l.Name, token) // it expires, if it must
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, inFlags(err)
	})
}

func (c *leaseAcquire) print(a *app, held *lease.Lease) error {
	doc := ops.Grant(held)
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintf(w, "held for %s, %s\n\n", readable.Duration(c.TTL.Duration), until(held.Until))
		fmt.Fprintln(w, "TOKEN\tFENCE")
		fmt.Fprintf(w, "%s\t%d\n", doc.Token, doc.Fence)
	})
}

// until writes a deadline for people.
func until(deadline time.Time) string {
	return "until " + deadline.Local().Format(time.DateTime)
}

// inFlags has hints that name Go options name the flags instead.
func inFlags(err error) error {
	switch {
	case errors.Is(err, lease.ErrHeld):
		return lease.ErrHeld.Errorf("%s", err).WithHint("Wait with --wait until it is released or expires, or try again later.")
	case errors.Is(err, millrace.ErrEvictable):
		return millrace.ErrEvictable.Errorf("%s", err).WithHint("Set maxmemory-policy to noeviction or to a volatile-* policy, or accept the risk with --allow-evictable.")
	}
	return err
}

type leaseRefresh struct {
	ops.Lease
	ops.Refresh
}

func (c *leaseRefresh) Run(ctx context.Context, a *app) error {
	open := openLease(c.Lease, lease.Config{}, names.CheckLeaseTTL(c.TTL.Duration), names.CheckLeaseToken(string(c.Token)))
	return perform(ctx, a, open, ops.RefreshLease, c.Refresh, func(doc ops.Refreshed) table {
		return says("held for %s, %s", readable.Duration(doc.Remaining), until(time.UnixMilli(doc.Deadline)))
	})
}

type leaseRelease struct {
	ops.Lease
	ops.Holder
}

// OfOperator reports whether the holder is another user, host or program.
func (c *leaseRelease) OfOperator(context.Context) bool { return !issuedHere(string(c.Token)) }

func (*leaseRelease) Help() string {
	return `A lease that had expired fails with the code "lost": another holder may have had it meanwhile.`
}

func (c *leaseRelease) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openLease(c.Lease, lease.Config{}, names.CheckLeaseToken(string(c.Token))), ops.ReleaseLease, c.Holder, func(ops.Released) table { return says("released") })
}

type leaseShow struct {
	watchable
	ops.Lease
}

func (c *leaseShow) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openLease(c.Lease, lease.Config{}), ops.GetLease, c.Lease, func(doc ops.LeaseState) table {
		return func(w io.Writer) {
			switch {
			case doc.Held:
				fmt.Fprintf(w, "held for %s, %s\n\n", remaining(*doc.Remaining), until(time.UnixMilli(*doc.Deadline)))
				fmt.Fprintln(w, "TOKEN\tFENCE\tMETADATA")
				fmt.Fprintf(w, "%s\t%d\t%s\n", *doc.Token, doc.Fence, cmp.Or(*doc.Metadata, "-"))
			case doc.Fence > 0:
				fmt.Fprintf(w, "free; the last fence was %d\n", doc.Fence)
			default:
				fmt.Fprintln(w, "free; no fence is known")
			}
		}
	})
}

// remaining writes a time in milliseconds for people.
func remaining(ms int64) string { return readable.Duration(time.Duration(ms) * time.Millisecond) }
