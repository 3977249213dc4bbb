package conformance

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

var registryBehaviours = []behaviour{
	{"what was used once is listed by everybody", registryListsAll},
	{"what was deleted is not listed", registryForgets},
}

// kind is a kind of structure, as far as the registry goes.
type kind struct {
	name   string
	use    func(ctx context.Context, client rueidis.Client, name string) error
	remove func(ctx context.Context, client rueidis.Client, name string) error // nil if there is no such call
	list   func(context.Context, rueidis.Client) iter.Seq2[string, error]
}

var kinds = []kind{
	{
		"ick",
		func(ctx context.Context, client rueidis.Client, name string) error {
			k, err := ick.New(client, name, ick.Config{})
			if err == nil {
				_, err = k.AddNow(ctx, "a")
			}
			return err
		},
		func(ctx context.Context, client rueidis.Client, name string) error {
			k, err := ick.New(client, name, ick.Config{})
			if err == nil {
				_, err = k.Delete(ctx)
			}
			return err
		},
		ick.List,
	},
	{
		"channel",
		func(ctx context.Context, client rueidis.Client, name string) error {
			c, err := ick.NewChannel(client, name, ick.ChannelConfig{Size: 2})
			if err == nil {
				_, err = c.AddNow(ctx, "a")
			}
			return err
		},
		func(ctx context.Context, client rueidis.Client, name string) error {
			c, err := ick.NewChannel(client, name, ick.ChannelConfig{})
			if err == nil {
				_, err = c.Delete(ctx)
			}
			return err
		},
		ick.ListChannels,
	},
	{
		"queue",
		func(ctx context.Context, client rueidis.Client, name string) error {
			q, err := fairqueue.New(client, name, fairqueue.Config{})
			if err == nil {
				_, err = q.Write(ctx, fairqueue.Draft{Tenant: "a"})
			}
			return err
		},
		func(ctx context.Context, client rueidis.Client, name string) error {
			q, err := fairqueue.New(client, name, fairqueue.Config{})
			if err == nil {
				_, err = q.Delete(ctx)
			}
			return err
		},
		fairqueue.List,
	},
	{
		"tracker",
		func(ctx context.Context, client rueidis.Client, name string) error {
			tr, err := tracker.New(client, name, tracker.Config{})
			if err == nil {
				err = tr.Add(ctx, "a")
			}
			return err
		},
		func(ctx context.Context, client rueidis.Client, name string) error {
			tr, err := tracker.New(client, name, tracker.Config{})
			if err == nil {
				_, err = tr.Delete(ctx)
			}
			return err
		},
		tracker.List,
	},
	{
		"hashes",
		func(ctx context.Context, client rueidis.Client, name string) error {
			h, err := expiry.Open(ctx, client, name, expiry.Config{Shards: 1})
			if err == nil {
				_, err = h.Set(ctx, "h", "f", []byte("1"), expiry.SetConfig{TTL: long})
			}
			return err
		},
		nil, expiry.List,
	},
	{
		"keys",
		func(ctx context.Context, client rueidis.Client, name string) error {
			k, err := pinned.Open(ctx, client, name, pinned.Config{Shards: 1})
			if err == nil {
				_, err = k.Set(ctx, "a", []byte("1"), long, pinned.SetConfig{})
			}
			return err
		},
		nil, pinned.List,
	},
	{
		"lease",
		func(ctx context.Context, client rueidis.Client, name string) error {
			l, err := lease.New(client, lease.Config{})
			if err == nil {
				_, err = l.Acquire(ctx, name, long, lease.AcquireConfig{})
			}
			return err
		},
		nil, lease.List,
	},
}

// has reports whether a list has all of the names.
func (k kind) has(t *testing.T, client rueidis.Client, names ...string) bool {
	t.Helper()
	found := map[string]bool{}
	for name, err := range k.list(t.Context(), client) {
		must(t, "List", err)
		found[name] = true
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !found[name] })
}

// registryListsAll uses structures on all servers once, and lists them from another
// client.
func registryListsAll(t *testing.T, on running) {
	client, other := on.client(t), on.client(t)
	for _, k := range kinds {
		names := spread(t, on, 2)
		for _, name := range names {
			must(t, k.name, k.use(t.Context(), client, name))
		}
		redistest.Eventually(t, "each "+k.name+" is listed", func() bool { return k.has(t, other, names...) })
		if !k.has(t, client, names...) {
			t.Errorf("who has used each %s does not list them all", k.name)
		}
	}
}

// registryForgets deletes structures.
func registryForgets(t *testing.T, on running) {
	client, other := on.client(t), on.client(t)
	for _, k := range kinds {
		if k.remove == nil {
			continue
		}
		name := redistest.Name(t)
		must(t, k.name, k.use(t.Context(), client, name))
		redistest.Eventually(t, "the "+k.name+" is listed", func() bool { return k.has(t, other, name) })
		must(t, "Delete", k.remove(t.Context(), client, name))
		if k.has(t, other, name) {
			t.Errorf("the %s is listed when it is gone", k.name)
		}
		must(t, k.name, k.use(t.Context(), client, name))
		redistest.Eventually(t, "the "+k.name+" that began anew is listed", func() bool { return k.has(t, other, name) })
	}
}
