package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

func contains(text string, all ...string) bool {
	for _, s := range all {
		if !strings.Contains(text, s) {
			return false
		}
	}
	return true
}

func (w *world) beatOf(addr string) members.Beat {
	w.t.Helper()
	d := direct(w.t, addr)
	text, _ := d.Do(w.t.Context(), d.B().Get().Key(members.BeatKey).Build()).ToString()
	return members.ParseBeat(text)
}

// beats waits until n more beats are written into the master of a partition.
func (w *world) beats(id int, n int64) {
	w.t.Helper()
	master := w.mapNow().Partitions[id].Master.Addr
	first := w.beatOf(master).Count
	redistest.Eventually(w.t, "beats are written", func() bool { return w.beatOf(master).Count >= first+n })
}

// TestBeats are written once a second, also into a full server, and again when a person has
// deleted them. They only grow, over agents and masters, and replicas have them.
func TestBeats(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	stop := w.agent()
	f := w.client(fleet.Config{})
	ctx := t.Context()
	w.settled(f, 0)
	began, first := time.Now(), w.beatOf(w.mapNow().Partitions[0].Master.Addr)
	w.beats(0, 2)
	p := w.mapNow().Partitions[0]
	last := w.beatOf(p.Master.Addr)
	if most := int64(time.Since(began)/members.BeatInterval) + 2; last.Count-first.Count > most || last.Epoch != p.Epoch {
		t.Errorf("in %v the beat grew from %v to %v, want epoch %d and at most %d more", time.Since(began), first, last, p.Epoch, most)
	}
	redistest.Eventually(t, "the replica has it", func() bool { return !w.beatOf(p.Replicas[0].Addr).Less(last) })
	d := direct(t, p.Master.Addr)
	must(t, d.Do(ctx, d.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error())
	w.beats(0, 1)
	must(t, d.Do(ctx, d.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "0").Build()).Error())
	stop()
	last = w.beatOf(p.Master.Addr)
	w.agent()
	redistest.Eventually(t, "a new agent goes on above", func() bool { return w.beatOf(p.Master.Addr).Count > last.Count })
	must(t, d.Do(ctx, d.B().Del().Key(members.BeatKey).Build()).Error())
	redistest.Eventually(t, "a beat is written after it was deleted", func() bool { return w.beatOf(p.Master.Addr).Count > last.Count })
	last = w.beatOf(p.Master.Addr)
	redistest.Eventually(t, "the replica has that one", func() bool { return !w.beatOf(p.Replicas[0].Addr).Less(last) })
	must(t, w.server(p.Master.Addr).Proc.Kill())
	redistest.Eventually(t, "the replica is the master", func() bool {
		now := w.mapNow().Partitions[0]
		return !now.ReadOnly && now.Master.Addr != p.Master.Addr
	})
	if now := w.beatOf(p.Replicas[0].Addr); !last.Less(now) || now.Epoch <= last.Epoch || now.Count <= last.Count {
		t.Errorf("the new master has beat %v, want both numbers above %v", now, last)
	}
}
