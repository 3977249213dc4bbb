package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestElectionsAreNeeded: the only copy is that of a former master, which was stopped when
// another one took over, and so lacks confirmed writes. It is all that answers at first.
// Without either half of the protection it serves, and the writes are lost.
func TestElectionsAreNeeded(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil func(p *directory.Partition)
		safe  bool
	}{
		{"protected", func(*directory.Partition) {}, true},
		{"with trust in the master of the copy", func(p *directory.Partition) { p.Stale = false }, false},
		{"without elections", func(p *directory.Partition) { p.ReadOnly = false }, false},
	}
	if os.Getenv("MILLRACE_SOAK") == "" {
		cases = cases[:2]
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Nodes: 3, Partitions: 2, Replicas: 2}) // with one partition the agent would miss most members
			stop := w.agent(w.dir)
			f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
			w.settled(w.dir, f)
			p := mapOf(t, w.dir).Partitions[0]
			tag := w.tagOn(f, 0)
			must(t, w.server(p.Master.Addr).Proc.Pause())
			redistest.Eventually(t, "another member leads", func() bool {
				now := mapOf(t, w.dir).Partitions[0]
				return !now.ReadOnly && now.Master.Addr != p.Master.Addr
			})
			redistest.Eventually(t, "a write is confirmed there", func() bool { return add(t.Context(), f, tag, "confirmed") == nil })
			stop()
			for _, replica := range p.Replicas {
				must(t, w.server(replica.Addr).Proc.Pause())
			}
			must(t, w.server(p.Master.Addr).Proc.Resume())
			w.do(p.Master.Addr, "REPLICAOF", "NO", "ONE")                          // as if it had been cut off from the agent as well
			w.do(mapOf(t, w.dir).Partitions[1].Master.Addr, "DEL", members.MapKey) // a newer copy
			w.lose()

			done := []string{"confirmed"}
			found := w.find(recovery.Config{Members: []string{p.Master.Addr}})
			next := found.Map.Clone()
			tc.spoil(&next.Partitions[0])
			found.Map = next
			must(t, found.Store(t.Context(), "recover"))
			w.agent(w.dir)
			redistest.Eventually(t, "partition 1 serves", func() bool {
				s, err := f.Status(t.Context())
				return err == nil && s.Partitions[1].State == fleet.Healthy
			})
			if tc.safe {
				redistest.Eventually(t, "the agent says that it can elect no member", func() bool {
					events, err := w.dir.Events(t.Context())
					return err == nil && says(texts(events), "no new master", "replicas answered")
				})
			} else {
				late := w.client(w.dir, fleet.Config{})
				redistest.Eventually(t, "the former master takes writes again", func() bool { return add(t.Context(), late, tag, "late") == nil })
				done = append(done, "late")
			}
			for _, replica := range p.Replicas {
				must(t, w.server(replica.Addr).Proc.Resume())
			}
			w.serves(f, fleet.Healthy)
			if missing := lost(t, f, tag, done); (len(missing) == 0) != tc.safe {
				t.Errorf("of %v the fleet has lost %v; is that to be safe: %v", done, missing, tc.safe)
			}
		})
	}
}

func texts(events []directory.Event) (lines []string) {
	for _, e := range events {
		lines = append(lines, e.What)
	}
	return lines
}

// tagOn returns a tag that is placed on a partition.
func (w *world) tagOn(f *fleet.Fleet, partition int) string {
	w.t.Helper()
	for i := range 100 {
		tag := fmt.Sprint("tag", i)
		redistest.Eventually(w.t, "the fleet takes writes", func() bool { return add(w.t.Context(), f, tag, "first") == nil })
		where, err := f.Locate(w.t.Context(), tag)
		must(w.t, err)
		if where.Partition == partition {
			return tag
		}
	}
	w.t.Fatalf("none of 100 tags is on partition %d", partition)
	return ""
}

// TestTheEpochMustBeAboveAll: clients refuse a map that is older than theirs. They know a
// newer one than the copy, and than most members.
func TestTheEpochMustBeAboveAll(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{})
	w.settled(w.dir, f)
	stop()
	known := mapOf(t, w.dir) // which members do not get any more
	for range 5 {
		next := known.Clone()
		next.Epoch++
		must(t, w.dir.Change(t.Context(), known.Epoch, next))
		known = next
	}
	redistest.Eventually(t, "the client has the newest map", func() bool {
		s, err := f.Status(t.Context())
		return err == nil && s.Epoch == known.Epoch
	})
	w.lose()
	w.readOnly(f)
	found := w.find(recovery.Config{Members: []string{known.Partitions[0].Master.Addr}})
	if found.Known >= known.Epoch {
		t.Fatalf("found knows epoch %d, want less than that of the clients, %d", found.Known, known.Epoch)
	}
	protected := found.Map
	found.Map = found.Map.Clone()
	found.Map.Epoch = found.Known + 1
	must(t, found.Store(t.Context(), "recover"))
	fresh := w.client(w.dir, fleet.Config{})
	if s, err := fresh.Status(t.Context()); err != nil || s.Epoch != found.Map.Epoch {
		t.Fatalf("a new client has epoch %d, %v, want %d", s.Epoch, err, found.Map.Epoch)
	}
	if s, err := f.Status(t.Context()); err != nil || s.Epoch != known.Epoch {
		t.Errorf("with an epoch that is only above those of members, the client goes on with epoch %d, %v, want that it refuses", s.Epoch, err)
	}
	w.lose()
	found.Map = protected
	must(t, found.Store(t.Context(), "recover"))
	w.agent(w.dir)
	w.serves(f, fleet.Healthy)
}

// cut is a store that fails from one call on: before it takes effect, or after.
type cut struct {
	directory.Store

	left  int // calls that are still answered
	after bool
}

var errCut = &millrace.Error{Code: "killed"}

func cutting[T any](s *cut, call func() (T, error)) (T, error) {
	var none T
	if s.left--; s.left < 0 {
		if s.left == -1 && s.after {
			_, _ = call()
		}
		return none, errCut
	}
	return call()
}

func (s *cut) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	return cutting(s, func() ([]directory.Value, error) { return s.Store.Get(ctx, read, names...) })
}

func (s *cut) Put(ctx context.Context, revision string, texts ...directory.Text) (bool, error) {
	return cutting(s, func() (bool, error) { return s.Store.Put(ctx, revision, texts...) })
}

// TestKilledAtEveryStep: whatever a command that died has done, the next one completes it.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	l := w.load(f, "a", "b", "c")
	l.goesOn()
	stop()
	m := mapOf(t, w.dir)
	steps := 0
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			w.lose()
			dying := &cut{Store: w.dir.Store, left: n, after: after}
			found, err := find(t, recovery.Config{Directory: directory.New(dying), Members: []string{m.Partitions[0].Master.Addr}})
			if err == nil {
				err = found.Store(t.Context(), "recover")
			}
			if err != nil && !errors.Is(err, errCut) {
				t.Fatalf("Store, killed at step %d: %v", n, err)
			}
			steps++
			found = w.find(recovery.Config{Members: []string{m.Partitions[1].Replicas[0].Addr}})
			must(t, found.Store(t.Context(), "recover"))
			if end, moves, err := directory.AdoptMoves(t.Context(), w.dir); err == nil && moves {
				end(true)
			} else {
				t.Errorf("killed at step %d, and repeated: agents do not look for moves of tags that were cut off (%v)", n, err)
			}
			now := mapOf(t, w.dir)
			if now.Epoch <= m.Epoch || !now.Partitions[0].ReadOnly || len(now.Partitions) != 2 {
				t.Errorf("killed at step %d, and repeated: the map is %+v", n, now)
			}
			if err == nil && dying.left >= 0 {
				break // nothing was left to be killed
			}
		}
	}
	if steps < 8 {
		t.Errorf("the command was killed at %d steps, want some more", steps)
	}
	w.agent(w.dir)
	w.settled(w.dir, f)
	l.goesOn()
	l.check(f)
}
