package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// A history plays one way in which a directory could break its word, and returns an
// error if it did.
type history struct {
	name string
	play func(t *testing.T, d *Redis, server *redistest.Server) error
}

// store runs the script of a change, without what is checked before.
func store(ctx context.Context, d *Redis, epoch, next int64, text string) (changed, error) {
	return changeOn(ctx, d.servers[0], []string{strconv.FormatInt(epoch, 10), strconv.FormatInt(next, 10), text, ""})
}

var histories = []history{
	{"a replica confirms", func(t *testing.T, d *Redis, server *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		must(t, server.Client(t), "REPLICAOF", "127.0.0.1", "1")
		if _, err := d.Confirm(t.Context(), 1); !retry.Code(err, "READONLY") {
			t.Errorf("Confirm of the epoch by a replica = %v", err)
		}
		if _, err := d.confirm(t.Context(), 1, nil); !retry.Code(err, "READONLY") {
			return fmt.Errorf("Confirm of a replica = %w", err)
		}
		return nil
	}},
	{"a master without replicas confirms", func(t *testing.T, d *Redis, server *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		must(t, server.Client(t), "CONFIG", "SET", "min-replicas-to-write", "1")
		if _, err := d.Confirm(t.Context(), 1); !retry.Code(err, "NOREPLICAS") {
			t.Errorf("Confirm of the epoch by a master without replicas = %v", err)
		}
		if _, err := d.confirm(t.Context(), 1, nil); !retry.Code(err, "NOREPLICAS") {
			return fmt.Errorf("Confirm of a master without replicas = %w", err)
		}
		return nil
	}},
	{"an old map is confirmed", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		change(t, d, 1, sample(t, 2))
		if m, err := d.confirm(t.Context(), 1, nil); err != nil || m == nil || m.Epoch != 2 {
			return fmt.Errorf("Confirm = %v, %w", m, err)
		}
		return nil
	}},
	{"two change the same map", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		change(t, d, 1, sample(t, 2))
		if err := d.Change(t.Context(), 1, sample(t, 3)); !errors.Is(err, ErrConflict) {
			return fmt.Errorf("Change = %w", err)
		}
		return nil
	}},
	{"two store the same epoch", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		other := sample(t, 1)
		other.Fleet = "other"
		if err := d.Change(t.Context(), 0, other); !errors.Is(err, ErrConflict) {
			return fmt.Errorf("Change = %w", err)
		}
		return nil
	}},
	{"the epoch goes back", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		change(t, d, 0, sample(t, 5))
		for _, next := range []int64{4, 5} {
			if done, err := store(t.Context(), d, 5, next, "?"); err != nil || done.stored {
				return fmt.Errorf("change to %d = %+v, %w", next, done, err)
			}
		}
		return nil
	}},
	{"a repeat is refused", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		return errors.Join(d.Change(t.Context(), 0, sample(t, 1)), d.Change(t.Context(), 0, sample(t, 1)))
	}},
	{"a map is lost", func(t *testing.T, d *Redis, server *redistest.Server) error {
		change(t, d, 0, sample(t, 1))
		change(t, d, 1, sample(t, 2))
		text, err := pack(sample(t, 1))
		if err != nil {
			return err
		}
		must(t, server.Client(t), "HSET", baseKey, "epoch", "1", "map", text)
		next := sample(t, 2)
		next.Settings.MaxTags = 7
		change(t, d, 1, next)
		if n := integer(t, server.Client(t), "ZCARD", baseKey+":changes"); n != 1 {
			return fmt.Errorf("%d changes are kept, want that of the present map", n)
		}
		return nil
	}},
	{"changes fill the directory", func(t *testing.T, d *Redis, server *redistest.Server) error {
		for epoch := range int64(40) {
			change(t, d, epoch, sample(t, epoch+1))
		}
		if n := integer(t, server.Client(t), "ZCARD", baseKey+":changes"); n != 32 {
			return fmt.Errorf("%d changes are kept", n)
		}
		return nil
	}},
}

// probe is how a confirmation finds out whether the server takes writes.
const probe = "redis.call('DEL', K .. ':none')"

// protections are what keeps the histories from failing, and how to take it out.
var protections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"who confirms takes writes", probe, "", []string{"a replica confirms", "a master without replicas confirms"}},
	{"confirm compares the epoch", "epoch == ARGV[1] or epoch == ARGV[2]", "true", []string{"an old map is confirmed"}},
	{"change compares the epoch", "epoch ~= ARGV[1] or ", "", []string{"two change the same map"}},
	{"the epoch grows", " or tonumber(ARGV[2]) <= tonumber(epoch)", "", []string{"the epoch goes back"}},
	{"a repeat is known", "epoch == ARGV[2] and stored[2] == ARGV[3]", "false", []string{"a repeat is refused"}},
	{"a repeat has the same map", " and stored[2] == ARGV[3]", "", []string{"two store the same epoch"}},
	{"changes of a lost map go", "redis.call('ZREMRANGEBYSCORE', changes, ARGV[1], '+inf') -- differences to a map that was lost", "", []string{"a map is lost"}},
	{"changes are bounded", "redis.call('ZREMRANGEBYRANK', changes, 0, -33)", "", []string{"changes fill the directory"}},
}

func play(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	d, server := start(t)
	d.servers[0].Scripts = scripts
	i := slices.IndexFunc(histories, func(h history) bool { return h.name == name })
	return histories[i].play(t, d, server)
}

func TestHistories(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, h.name, library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionIsNeeded takes each protection out and expects the histories to
// notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := play(t, name, scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
