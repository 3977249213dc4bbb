package conformance

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// TestOtherVersions: each structure of an older or a newer version is refused, and stays as it is. docs/SUPPORT.md says so.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	do := func(words ...string) rueidis.RedisResult {
		return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	}
	for structure, of := range map[string]struct {
		version int
		key     string // in front of the name
		behind  string
		use     func(ctx context.Context, name string) error
	}{
		"queue": {3, "mr:queue:{", "}", func(ctx context.Context, name string) error {
			q, err := fairqueue.New(client, name, fairqueue.Config{})
			if err == nil {
				_, err = q.Write(ctx, fairqueue.Draft{Tenant: "a"})
			}
			return err
		}},
		"channel": {1, "mr:channel:{", "}", func(ctx context.Context, name string) error {
			c, err := ick.NewChannel(client, name, ick.ChannelConfig{})
			if err == nil {
				_, err = c.Stats(ctx)
			}
			return err
		}},
		"hashes": {4, "mr:hashes:{", "}", func(ctx context.Context, name string) error {
			h, err := expiry.Open(ctx, client, name, expiry.Config{})
			if err == nil {
				_, _, err = h.Get(ctx, "h", "f")
			}
			return err
		}},
		"pinned values": {2, "mr:keys:{", "}", func(ctx context.Context, name string) error {
			k, err := pinned.Open(ctx, client, name, pinned.Config{})
			if err == nil {
				_, err = k.Set(ctx, "k", []byte("v"), time.Minute, pinned.SetConfig{})
			}
			return err
		}},
		"tracker": {1, "mr:tracker:{", "}", func(ctx context.Context, name string) error {
			tr, err := tracker.New(client, name, tracker.Config{})
			if err == nil {
				_, err = tr.Queued(ctx, "id")
			}
			return err
		}},
	} {
		t.Run(structure, func(t *testing.T) {
			t.Parallel()
			for version := range of.version + 2 {
				if version == 0 || version == of.version {
					continue
				}
				name := redistest.Name(t) + strconv.Itoa(version)
				key := of.key + name + of.behind
				if err := do("HSET", key, "version", strconv.Itoa(version), "shards", "1").Error(); err != nil {
					t.Fatal(err)
				}
				if err := of.use(t.Context(), name); !errors.Is(err, millrace.ErrVersion) {
					t.Errorf("version %d: %v, want %v", version, err, millrace.ErrVersion)
				}
				if got, err := do("HLEN", key).AsInt64(); got != 2 || err != nil {
					t.Errorf("version %d: the key has %d fields, %v, want it as it was", version, got, err)
				}
			}
		})
	}
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	name := redistest.Name(t)
	for what, words := range map[string][]string{
		"1": {"HSET", "mr:lease:{" + name + "1}", "version", "1"},
		"2": {"SET", "mr:lease:{" + name + "2}", "2 1795709159481836 1795709159481 01 0000 00 t"},
		"4": {"SET", "mr:lease:{" + name + "4}", "4 1795709159481836 1795709159481 1795709159481 01 0000 00 t"},
	} {
		if err := do(words...).Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Acquire(t.Context(), name+what, time.Minute, lease.AcquireConfig{}); !errors.Is(err, millrace.ErrVersion) {
			t.Errorf("lease of version %s: %v, want %v", what, err, millrace.ErrVersion)
		}
	}
}
