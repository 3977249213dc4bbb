package failover

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestPause measures for how long no write is accepted after the SIGKILL of a master,
// with an agent that checks four times a second: the Grace, three checks, and a little.
func TestPause(t *testing.T) {
	if !soak() {
		t.Skip("measures for a minute; set MILLRACE_SOAK=1")
	}
	for _, settings := range []directory.Settings{{ViewTTL: time.Second}, {ViewTTL: 3 * time.Second}} {
		cfg := devfleet.Config{Partitions: 2, Replicas: 2, Settings: settings}
		onBoth(t, cfg, func(t *testing.T, w *world) {
			w.agentEvery(250 * time.Millisecond)
			f := w.client(fleet.Config{WaitReplicas: 1})
			where, err := f.Locate(t.Context(), "a")
			must(t, err)
			w.settled(f, where.Partition)
			l := w.load(f, "a", 1)
			var pauses []time.Duration
			for range 5 {
				l.goesOn(t)
				l.restart()
				old := w.mapNow().Partitions[where.Partition].Master
				must(t, w.server(old.Addr).Proc.Kill())
				redistest.Eventually(t, "another master is in the map", func() bool {
					p := w.mapNow().Partitions[where.Partition]
					return !p.ReadOnly && p.Master.Addr != old.Addr
				})
				l.goesOn(t)
				pauses = append(pauses, l.longest())
				must(t, w.server(old.Addr).Proc.Restart(t.Context()))
				redistest.Eventually(t, "it is known to have all data again", func() bool {
					return slices.ContainsFunc(w.mapNow().Partitions[where.Partition].Replicas, func(m directory.Member) bool {
						return m.Addr == old.Addr && m.Run != old.Run
					})
				})
			}
			l.stop()
			if n := l.lost(t); n > 0 {
				t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
			}
			slices.Sort(pauses)
			grace := w.mapNow().Grace()
			t.Logf("a ViewTTL of %v, a Grace of %v: no write for %v", settings.ViewTTL, grace, pauses)
			if most := grace + 2350*time.Millisecond; pauses[len(pauses)/2] > most {
				t.Errorf("no write was accepted for %v, want at most %v", pauses[len(pauses)/2], most)
			}
		})
	}
}

// TestElectionsStopNoWrites kills and freezes the leader of an etcd with its default
// timeouts. With a ViewTTL of 3 seconds clients do not notice.
func TestElectionsStopNoWrites(t *testing.T) {
	if !soak() {
		t.Skip("measures for half a minute; set MILLRACE_SOAK=1")
	}
	cluster := etcdtest.Start(t, etcdtest.Options{Args: []string{"--heartbeat-interval", "100", "--election-timeout", "1000"}})
	w := startInEtcd(t, cluster, devfleet.Config{Partitions: 1, Settings: directory.Settings{ViewTTL: 3 * time.Second}})
	w.agent()
	f := w.client(fleet.Config{})
	w.settled(f, 0)
	l := w.load(f, "a", 1)
	for round := range 6 {
		l.goesOn(t)
		l.restart()
		leader := cluster.Leader()
		end, back := leader.Kill, leader.Restart
		if round%2 == 1 {
			end, back = leader.Freeze, leader.Thaw
		}
		end()
		began := time.Now()
		cluster.Leader()
		elected := time.Since(began)
		l.goesOn(t)
		back()
		if pause := l.longest(); pause > 500*time.Millisecond {
			t.Errorf("no write was accepted for %v, while etcd elected a leader in %v", pause, elected)
		}
		t.Logf("elected in %v, no write for %v", elected, l.longest())
		redistest.Eventually(t, "all members of etcd confirm", func() bool {
			for _, m := range cluster.Members {
				if _, err := m.Client(t).Get(t.Context(), "k"); err != nil {
					return false
				}
			}
			return true
		})
	}
}
