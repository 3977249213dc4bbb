package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/tracker"
)

// TestReservedNames passes names of keys that structures own to every call that takes a name. All
// are refused, and similar ones are not.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hashes, err := expiry.Open(t.Context(), client, "names", expiry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pinned.Open(t.Context(), client, "names", pinned.Config{})
	if err != nil {
		t.Fatal(err)
	}
	values, err := scatter.New([]scatter.Server{{Client: client}}, scatter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(values.Close)
	flush := func(ctx context.Context, change func(s *scatter.Session)) error {
		s := values.Session("")
		change(s)
		return s.Flush(ctx)
	}
	read := func(ctx context.Context, ask func(g *scatter.Gather)) error {
		g := values.Gather()
		ask(g)
		err := g.Read(ctx)
		if errors.Is(err, scatter.ErrType) { // the name was accepted
			return nil
		}
		return err
	}
	places := []struct {
		name   string
		braces bool // it takes names with braces
		use    func(ctx context.Context, name string) error
	}{
		{"ick", true, func(_ context.Context, name string) error {
			_, err := ick.New(client, name, ick.Config{})
			return err
		}},
		{"channel", false, func(_ context.Context, name string) error {
			_, err := ick.NewChannel(client, name, ick.ChannelConfig{})
			return err
		}},
		{"queue", false, func(_ context.Context, name string) error {
			_, err := fairqueue.New(client, name, fairqueue.Config{})
			return err
		}},
		{"part of a queue", false, func(_ context.Context, name string) error {
			_, err := parts.New(parts.Config{Parts: []parts.Part{{Name: name, Client: client}}})
			return err
		}},
		{"namespace of hashes", false, func(ctx context.Context, name string) error {
			_, err := expiry.Open(ctx, client, name, expiry.Config{})
			return err
		}},
		{"hash", false, func(ctx context.Context, name string) error {
			_, err := hashes.Incr(ctx, name, "field", 1)
			return err
		}},
		{"namespace of values", false, func(ctx context.Context, name string) error {
			_, err := pinned.Open(ctx, client, name, pinned.Config{})
			return err
		}},
		{"value", false, func(ctx context.Context, name string) error {
			_, err := keys.Set(ctx, name, nil, time.Minute, pinned.SetConfig{})
			return err
		}},
		{"lease", false, func(ctx context.Context, name string) error {
			_, err := locker.Do(ctx, name, time.Minute, lease.AcquireConfig{}, func(context.Context, int64) error { return nil })
			return err
		}},
		{"lease shown", false, func(ctx context.Context, name string) error {
			_, err := locker.Show(ctx, name)
			return err
		}},
		{"cache", false, func(ctx context.Context, name string) error {
			_, err := fetch.Open(ctx, client, name, fetch.Config{TTL: time.Minute})
			return err
		}},
		{"tracker", false, func(_ context.Context, name string) error {
			_, err := tracker.New(client, name, tracker.Config{})
			return err
		}},
		{"group of scatter", false, func(_ context.Context, name string) error {
			_, err := scatter.New([]scatter.Server{{Client: client}}, scatter.Config{Group: name})
			return err
		}},
		{"counter", true, func(ctx context.Context, name string) error {
			return flush(ctx, func(s *scatter.Session) { s.Add(name, 1) })
		}},
		{"list", true, func(ctx context.Context, name string) error {
			return flush(ctx, func(s *scatter.Session) { s.Push(name+" list", 1, nil) })
		}},
		{"set", true, func(ctx context.Context, name string) error {
			return flush(ctx, func(s *scatter.Session) { s.Insert(name+" set", "x") })
		}},
		{"scores", true, func(ctx context.Context, name string) error {
			return flush(ctx, func(s *scatter.Session) { s.Score(name+" scores", "x", 1, scatter.Sum) })
		}},
		{"tally", true, func(_ context.Context, name string) error {
			tally, err := values.Tally(scatter.TallyConfig{})
			if err != nil {
				return err
			}
			defer tally.Close(context.Background())
			return tally.Add(name, 1)
		}},
		{"counter read", true, func(ctx context.Context, name string) error {
			return read(ctx, func(g *scatter.Gather) { g.Int(name) })
		}},
	}
	reserved := []string{"mr:", "mr:audit", "mr:lease:job", "mr:leases:3", "mr:fleet:id"}
	braces := []string{
		"mr:lease:{job}", "mr:queue:{orders}", "mr:channel:{c}:owners", "mr:key:{fetch/a/0}:values", // Millrace's
		"a/ick/{a}/pset", "a/ick/{a}/wake", "{a}/ick/{{a}}/folds", "a/b/ick/{a/b}/meta", // an Ick's
	}
	fine := []string{"mr", "mrs:x", "MR:x", "a:mr:x", "aick:x"}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			names := reserved
			if p.braces {
				names = append(slices.Clip(names), braces...)
			}
			for _, name := range names {
				if err := p.use(t.Context(), name); !errors.Is(err, millrace.ErrBadName) {
					t.Errorf("the name %q: error = %v, want %v", name, err, millrace.ErrBadName)
				}
			}
			for _, name := range fine {
				if err := p.use(t.Context(), name); err != nil {
					t.Errorf("the name %q: error = %v, want none", name, err)
				}
			}
		})
	}
}
