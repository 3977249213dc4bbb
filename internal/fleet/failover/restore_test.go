package failover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestRestoredFromTheArchive follows "Restoring a partition" of docs/FLEET.md: all members of a
// partition are stopped, after it has had another master since the snapshot, and so another
// history. Both have newer dumps of their own; the file replaces one of them, and a person chooses
// that member.
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
	w.beats(0, 1)
	archive, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	var file string
	for s, err := range snapshot.New(w.dir, snapshot.Config{Archive: archive, Logger: quiet}).Now(ctx) {
		must(t, err)
		file = filepath.Join(archive, s.Archived.File)
	}
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	must(t, Switch(ctx, w.dir, servers, 0, "", quiet, nil))
	must(t, set("not saved"))
	w.settled(f, 0)
	w.beats(0, 6)

	p := w.mapNow().Partitions[0]
	for _, m := range p.Members() {
		d := direct(t, m.Addr)
		save(t, d) // left over, and newer
		must(t, w.server(m.Addr).Proc.Kill())
	}
	data, err := os.ReadFile(file)
	must(t, err)
	from, other := p.Replicas[0].Addr, p.Master.Addr
	must(t, os.WriteFile(filepath.Join(w.server(from).Proc.Dir(), "dump.rdb"), data, 0o600))
	must(t, w.server(from).Proc.Restart(ctx))
	logged := func(words ...string) func() bool {
		return func() bool {
			events, err := w.dir.Events(ctx)
			return err == nil && slices.ContainsFunc(events, func(e directory.Event) bool { return contains(e.What, words...) })
		}
	}
	redistest.Eventually(t, "the log says who is missing and what to decide", logged(NoMaster, other+" does not answer", "millrace fleet restore 0 --from "+from, "beats, about"))
	ages := Look(ctx, rueidis.ClientOption{}, w.dir, w.mapNow(), 0).Members
	if age := ages[1]; !age.Known || age.Addr != from || age.Behind < 4 || ages[0].Known {
		t.Errorf("the ages are %+v, want %s some beats behind, and nothing of %s", ages, from, other)
	}
	var told atomic.Int64
	restored := func(context.Context, *directory.Map, int, string) error { told.Add(1); return nil }
	must(t, Restore(ctx, w.dir, servers, 0, Choice{Addr: from}, quiet, New(w.dir, servers, Config{Restored: restored, Logger: quiet}).Help))
	must(t, w.server(other).Proc.Restart(ctx))
	w.settled(f, 0)
	if now := w.mapNow().Partitions[0]; now.Restore != "" || now.Master.Addr != from {
		t.Errorf("the partition is %+v, want the master %s and no choice left", now, from)
	}
	for _, m := range p.Members() {
		d := direct(t, m.Addr)
		if got, err := d.Do(ctx, d.B().Get().Key("{a}").Build()).ToString(); got != "saved" || err != nil {
			t.Errorf("%s has %q, %v, want what was saved", m.Addr, got, err)
		}
	}
	redistest.Eventually(t, "the log says how old its data is", logged("healthy: "+from+" leads", "A person has chosen its data", "beats, about", "millrace fleet restore 0 --doubtful"))
	must(t, set("y"))
	if w.restored.Load()+told.Load() == 0 {
		t.Error("no job was told that the partition has the data of an earlier time")
	}
}

// TestOldDataWaitsForAPerson: all members answer, and the newest of their files is too old. The log
// says so once, and an agent that starts later knows it from the directory.
func TestOldDataWaitsForAPerson(t *testing.T) {
	t.Parallel()
	onBoth(t, devfleet.Config{Partitions: 1, Replicas: 1}, func(t *testing.T, w *world) {
		stop := w.agent()
		f := w.client(fleet.Config{})
		c, ctx := f.Client(), t.Context()
		w.settled(f, 0)
		must(t, retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error { return c.Do(ctx, c.B().Set().Key("{a}").Value("old").Build()).Error() }))
		w.beats(0, 1)
		p := w.mapNow().Partitions[0]
		d := direct(t, p.Master.Addr)
		save(t, d)
		saved := w.beatOf(p.Master.Addr)
		redistest.Eventually(t, "the directory knows a newer beat", func() bool {
			known, err := w.dir.Beats(ctx)
			return err == nil && known[0].Count > saved.Count+5
		})
		stop()
		for _, m := range p.Members() {
			must(t, w.server(m.Addr).Proc.Kill())
		}
		must(t, os.Remove(filepath.Join(w.server(p.Replicas[0].Addr).Proc.Dir(), "dump.rdb")))
		for _, m := range p.Members() {
			must(t, w.server(m.Addr).Proc.Restart(ctx))
		}
		w.agent()
		said := func() (n int) {
			events, err := w.dir.Events(ctx)
			must(t, err)
			for _, e := range events {
				if contains(e.What, NoMaster, "the newest data is", "behind what was there", "millrace fleet restore 0") {
					n++
				}
			}
			return n
		}
		redistest.Eventually(t, "the log says what there is", func() bool { return said() == 1 })
		servers := NewRedis(rueidis.ClientOption{})
		t.Cleanup(servers.Close)
		fenced := func() string { // by how many calls; each one ends this connection
			text, _ := members.Ask(ctx, servers.pool, p.Master.Addr, func(ctx context.Context, c rueidis.Client) (string, error) {
				return c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
			})
			_, calls, _ := strings.Cut(text, "cmdstat_replicaof:calls=")
			calls, _, _ = strings.Cut(calls, ",")
			return calls
		}
		var first string
		redistest.Eventually(t, "members were fenced", func() bool { first = fenced(); return first != "" })
		redistest.Eventually(t, "agents have tried again", func() bool { now := fenced(); return now != "" && now != first })
		if now := w.mapNow().Partitions[0]; said() != 1 || !now.ReadOnly {
			t.Errorf("the log says it %d times, and the partition is %+v, want once and read-only", said(), now)
		}
		must(t, Restore(ctx, w.dir, servers, 0, Choice{Addr: p.Master.Addr}, slog.New(slog.DiscardHandler), nil))
		w.settled(f, 0)
		if beat := w.beatOf(p.Master.Addr); beat.Count <= saved.Count+5 {
			t.Errorf("the beat is %v after the restore, want it above the newest that was known", beat)
		}
	})
}

// meddled is a store in which somebody else changes the map after the nth read.
type meddled struct {
	directory.Store

	reads  int
	meddle func(read int)
}

func (m *meddled) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	values, err := m.Store.Get(ctx, read, names...)
	m.reads++
	m.meddle(m.reads)
	return values, err
}

// TestAChoiceIsNotOvertaken by an agent that marks the partition as read-only between two steps of
// the choice; it is by one that has made another member the master.
func TestAChoiceIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *directory.Partition){
		"read-only": func(p *directory.Partition) { p.ReadOnly = true },
		"another master": func(p *directory.Partition) {
			p.Master, p.Replicas = p.Replicas[0], []directory.Member{p.Master}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			between := 0                          // how often it is changed between the steps
			for after := 2; after <= 4; after++ { // the map is known after two reads
				store := new(directorytest.Memory)
				dir := directory.New(store)
				must(t, dir.Change(t.Context(), 0, directorytest.Sample(t, 1)))
				ctx, cancel := context.WithCancel(t.Context())
				meddled := &meddled{Store: store, meddle: func(read int) {
					if read != after {
						return
					}
					m, err := dir.Load(t.Context())
					must(t, err)
					if m.Partitions[0].Restore != "" {
						return // the choice was first
					}
					next := m.Next()
					change(&next.Partitions[0])
					next.Partitions[0].Epoch = next.Epoch
					must(t, dir.Change(t.Context(), m.Epoch, next))
					between++
				}}
				err := Restore(ctx, directory.New(meddled), nil, 0, Choice{Addr: "b:1"}, slog.New(slog.DiscardHandler), func(context.Context) func() {
					cancel() // nobody carries the choice out
					return func() {}
				})
				cancel()
				m, mapErr := dir.Load(t.Context())
				must(t, mapErr)
				p := m.Partitions[0]
				if overtaken := p.Master.Addr == "b:1"; overtaken && (p.Restore != "" || !errors.Is(err, ErrNotSwitched)) || !overtaken && p.Restore != "b:1" {
					t.Errorf("after %d reads: the partition is %+v, Restore = %v; want it restored unless another member is the master", after, p, err)
				}
			}
			if between == 0 {
				t.Error("the partition was never changed between two steps of the choice")
			}
		})
	}
}
