package failover

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/retry"
)

// TestRestoredFromTheArchive: all members of a partition are lost, after it has had
// another master since the snapshot, and so another history. The archived file in the
// master's folder is all that it takes.
func TestRestoredFromTheArchive(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	w.agent()
	f := w.client(fleet.Config{})
	c, ctx := f.Client(), t.Context()
	w.settled(f, 0)
	set := func(value string) error {
		return retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error { return c.Do(ctx, c.B().Set().Key("{a}").Value(value).Build()).Error() })
	}
	must(t, set("saved"))
	archive, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	var file string
	var saved directory.Archived
	for s, err := range snapshot.New(w.dir, snapshot.Config{Archive: archive, Logger: quiet}).Now(ctx) {
		must(t, err)
		saved, file = s.Archived, filepath.Join(archive, s.Archived.File)
	}
	members := NewRedis(rueidis.ClientOption{})
	t.Cleanup(members.Close)
	must(t, Switch(ctx, w.dir, members, 0, "", quiet))
	must(t, set("not saved"))

	p := w.mapNow().Partitions[0]
	for _, m := range p.Members() {
		must(t, w.server(m.Addr).Proc.Kill())
		if err := os.Remove(filepath.Join(w.server(m.Addr).Proc.Dir(), "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(w.server(w.mapNow().Partitions[0].Master.Addr).Proc.Dir(), "dump.rdb"), data, 0o600))
	for _, m := range p.Members() {
		must(t, w.server(m.Addr).Proc.Restart(ctx))
	}
	w.settled(f, 0)
	must(t, retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error {
		got, err := c.Do(ctx, c.B().Get().Key("{a}").Build()).ToString()
		if err == nil && got != "saved" {
			t.Errorf("{a} = %q, want what was saved", got)
		}
		return err
	}))
	redistest.Eventually(t, "the log says how old its data is", func() bool {
		events, err := w.dir.Events(ctx)
		want := "leads with the data of " + saved.At.UTC().Format(time.DateTime) + " UTC, or later"
		return err == nil && slices.ContainsFunc(events, func(e directory.Event) bool { return strings.Contains(e.What, want) })
	})
	must(t, set("y"))
	if w.restored.Load() == 0 {
		t.Error("nobody was told that the partition has the data of an earlier time")
	}
	redistest.Eventually(t, "the replica has it, too", func() bool {
		now := w.mapNow().Partitions[0]
		l, err := members.Probe(ctx, now.Replicas[0].Addr)
		return err == nil && l.Linked && whole(l, w.mapNow().Fleet, 0)
	})
}
