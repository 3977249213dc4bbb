package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/pinned"
)

// pinnedCommands is the noun pinned.
type pinnedCommands struct {
	Set pinnedSet `cmd:""`
	Get pinnedGet `cmd:""`
	TTL pinnedTTL `cmd:"" name:"ttl"`
	Rm  pinnedRm  `cmd:""`
}

func (*pinnedCommands) Help() string {
	return `A pinned value exists until its time and not after it, by the server's clock, also on a server that evicts keys with a TTL when its memory is full.

Examples:

    millrace pinned set flags user:17 on --ttl 30m
    millrace pinned get flags user:17
    millrace pinned ttl flags user:17 --set 1h
    millrace pinned rm flags user:17`
}

// openPinned makes a pinned value.
func openPinned(ctx context.Context, of ops.Pinned) opener[ops.OnePinned] {
	return func(c rueidis.Client) (ops.OnePinned, error) {
		one := ops.OnePinned{Name: string(of.Key)}
		err := shards.CheckName("key", one.Name)
		if err == nil {
			one.Of, err = openPinnedIn(ctx, of.Namespace)(c)
		}
		return one, err
	}
}

// openPinnedIn makes the pinned values of a namespace.
func openPinnedIn(ctx context.Context, name jsontype.Text) opener[*pinned.Keys] {
	return func(c rueidis.Client) (*pinned.Keys, error) {
		if c == nil {
			return nil, shards.CheckName("namespace", string(name))
		}
		return pinned.Open(ctx, c, string(name), pinned.Config{AllowEvictable: true})
	}
}

type pinnedSet struct {
	ops.Pinned
	Value jsontype.Text     `arg:"" help:"The value."`
	TTL   jsontype.Duration `required:"" name:"ttl" placeholder:"DURATION" help:"For how long, at least a millisecond."`
}

func (c *pinnedSet) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openPinned(ctx, c.Pinned), ops.SetPinned, ops.ToPin{Value: c.Value, TTL: c.TTL}, func(ops.FieldsSet) table {
		return says("set")
	})
}

type pinnedGet struct{ ops.Pinned }

func (c *pinnedGet) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openPinned(ctx, c.Pinned), ops.GetPinned, c.Pinned, func(doc ops.PinnedValue) table {
		return says("%s\n\n%s", doc.Value, lifetime(doc.TTL))
	})
}

type pinnedTTL struct {
	ops.Pinned
	Set time.Duration `placeholder:"DURATION" help:"Give it this time from now on."`
}

// Run shows, after a change if there is one.
func (c *pinnedTTL) Run(ctx context.Context, a *app) error {
	if a.given("set") && c.Set < time.Millisecond {
		return millrace.ErrBadArgument.Errorf("a time is a millisecond or more, not %s", c.Set).WithHint("Delete a value with: millrace pinned rm")
	}
	return on(ctx, a, openPinned(ctx, c.Pinned), func(p ops.OnePinned) (any, table, error) {
		if c.Set > 0 {
			if _, err := ops.ExpirePinned.Do(ctx, p, ops.Pin{TTL: jsontype.Duration{Duration: c.Set}}); err != nil {
				return nil, nil, err
			}
		}
		doc, err := ops.GetPinnedTTL.Do(ctx, p, c.Pinned)
		return doc, says("%s", lifetime(doc.TTL)), err
	})
}

type pinnedRm struct {
	Namespace jsontype.Text   `arg:"" name:"ns" complete:"pinned" help:"The namespace."`
	Keys      []jsontype.Text `arg:"" name:"key" help:"The values' names."`
}

func (c *pinnedRm) Run(ctx context.Context, a *app) error {
	open := func(client rueidis.Client) (*pinned.Keys, error) {
		for _, key := range c.Keys {
			if err := shards.CheckName("key", string(key)); err != nil {
				return nil, err
			}
		}
		return openPinnedIn(ctx, c.Namespace)(client)
	}
	return perform(ctx, a, open, ops.DeletePinned, jsontype.Strings(c.Keys), func(doc ops.Deleted) table {
		return says("deleted %s", readable.Count(doc.Deleted, "value"))
	})
}
