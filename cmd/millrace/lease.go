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
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
)

// leaseCommands is the noun lease.
type leaseCommands struct {
	Acquire leaseAcquire `cmd:"" help:"Take a lease, or wait for it, and print its token."`
	Refresh leaseRefresh `cmd:"" help:"Hold a lease longer."`
	Release leaseRelease `cmd:"" help:"End a lease before its deadline."`
	Show    leaseShow    `cmd:"" help:"Show who holds a lease, and for how long."`
	Ls      leaseLs      `cmd:"" help:"List the leases: who holds them, and for how long."`
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

// leaseName is the argument that names a lease.
type leaseName struct {
	Name document.Text `arg:"" complete:"lease" help:"The lease's name."`
}

// with opens a locker for do.
func (n leaseName) with(ctx context.Context, a *app, cfg lease.Config, do func(l *lease.Locker, name string) (any, table, error)) error {
	cfg.Logger = slog.New(slog.DiscardHandler) // a server that may evict leases is refused, or was accepted
	return on(ctx, a, func(c rueidis.Client) (*lease.Locker, error) {
		if err := names.CheckLease(string(n.Name)); err != nil {
			return nil, err
		}
		return lease.New(c, cfg)
	}, func(l *lease.Locker) (any, table, error) { return do(l, string(n.Name)) })
}

// leaseHeld is a lease and the token that identifies its holder.
type leaseHeld struct {
	leaseName
	Token document.Text `required:"" placeholder:"TOKEN" help:"The token that acquire printed."`
}

func (h leaseHeld) with(ctx context.Context, a *app, do func(l *lease.Locker, name, token string) (any, table, error)) error {
	if err := names.CheckLeaseToken(string(h.Token)); err != nil {
		return err
	}
	return h.leaseName.with(ctx, a, lease.Config{}, func(l *lease.Locker, name string) (any, table, error) {
		return do(l, name, string(h.Token))
	})
}

type leaseAcquire struct {
	leaseName
	TTL            time.Duration `name:"ttl" required:"" placeholder:"DURATION" help:"For how long to hold it, such as 30s or 10m."`
	Wait           time.Duration `placeholder:"DURATION" help:"How long to wait while another holder has it. Defaults to not at all."`
	Metadata       document.Text `placeholder:"TEXT" help:"A note about the holder, shown to others; at most 4,096 bytes."`
	AllowEvictable bool          `help:"Accept a server that may evict the lease when its memory is full: for leases that only save work."`
}

func (*leaseAcquire) Help() string {
	return `The lease stays after the command has ended, until its deadline; only refresh renews it. When another holder has it, the command fails with the code "held". Waiters are not served in order.

Examples:

    millrace lease acquire nightly --ttl 10m
    millrace lease acquire nightly --ttl 10m --wait 1m --metadata "$HOSTNAME"
    token=$(millrace lease acquire nightly --ttl 10m --json | jq -r .token)`
}

func (c *leaseAcquire) Run(ctx context.Context, a *app) error {
	if c.Wait < 0 {
		return millrace.ErrBadArgument.Errorf("cannot wait for %s", c.Wait)
	}
	if err := names.CheckLeaseTTL(c.TTL); err != nil {
		return err
	}
	return c.with(ctx, a, lease.Config{AllowEvictable: c.AllowEvictable}, func(l *lease.Locker, name string) (any, table, error) {
		token := leaseToken(rand.Text())
		held, err := l.Acquire(ctx, name, c.TTL, lease.AcquireConfig{Wait: c.Wait, Metadata: string(c.Metadata), Token: token})
		if err == nil {
			err = c.print(a, held)
		}
		if err == nil {
			return nil, nil, nil
		}
		if retry.NoAnswer(err) { // it may be held all the same, and its token was not printed
			_ = l.Release(ctx, name, token) // it expires, if it must
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, inFlags(err)
	})
}

func (c *leaseAcquire) print(a *app, held *lease.Lease) error {
	doc := document.Acquired{Token: held.Token, Fence: held.Fence, Deadline: held.ServerDeadline().UnixMilli()}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintf(w, "held for %s, %s\n\n", readable.Duration(c.TTL), until(held.ServerDeadline()))
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
	leaseHeld
	TTL time.Duration `name:"ttl" required:"" placeholder:"DURATION" help:"For how long to hold it from now on."`
}

func (*leaseRefresh) Help() string {
	return `A deadline that is later already stays. A lease that expired even once cannot be refreshed, even if it had no other holder: the command then fails with the code "lost".

Examples:

    millrace lease refresh nightly --token TOKEN --ttl 10m`
}

func (c *leaseRefresh) Run(ctx context.Context, a *app) error {
	if err := names.CheckLeaseTTL(c.TTL); err != nil {
		return err
	}
	return c.with(ctx, a, func(l *lease.Locker, name, token string) (any, table, error) {
		info, err := l.Refresh(ctx, name, token, c.TTL)
		return document.OfRefreshed(info), says("held for %s, %s", readable.Duration(info.Remaining), until(info.Deadline)), err
	})
}

type leaseRelease struct {
	leaseHeld
}

func (*leaseRelease) Help() string {
	return `Releasing again is no error for a minute, unless another holder has released it since. A lease that had expired fails with the code "lost": another holder may have had it meanwhile.

Examples:

    millrace lease release nightly --token TOKEN`
}

func (c *leaseRelease) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(l *lease.Locker, name, token string) (any, table, error) {
		return document.Released{Released: true}, says("released"), l.Release(ctx, name, token)
	})
}

type leaseShow struct {
	watchable
	leaseName
}

func (*leaseShow) Help() string {
	return `With the token you can release a lease whose holder has crashed.

Examples:

    millrace lease show nightly
    millrace lease show nightly --json`
}

func (c *leaseShow) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, lease.Config{}, func(l *lease.Locker, name string) (any, table, error) {
		info, err := l.Show(ctx, name)
		return document.OfLease(info), func(w io.Writer) { tableOfLease(w, info) }, err
	})
}

func tableOfLease(w io.Writer, info lease.Info) {
	switch {
	case info.Held:
		fmt.Fprintf(w, "held for %s, %s\n\n", readable.Duration(info.Remaining), until(info.Deadline))
		fmt.Fprintln(w, "TOKEN\tFENCE\tMETADATA")
		fmt.Fprintf(w, "%s\t%d\t%s\n", document.Text(info.Token), info.Fence, cmp.Or(document.Text(info.Metadata), "-"))
	case info.Fence > 0:
		fmt.Fprintf(w, "free; the last fence was %d\n", info.Fence)
	default:
		fmt.Fprintln(w, "free; no fence is known")
	}
}
