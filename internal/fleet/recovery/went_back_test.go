package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/etcd"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// restorable is a fleet of which the directory can be set back.
type restorable struct {
	*world

	backup func() (restore func())
	dir    *directory.Directory
}

// inRedis starts a fleet whose directory is one Redis with an append-only file.
func inRedis(t *testing.T, cfg devfleet.Config) restorable {
	w := start(t, cfg)
	proc := w.servers.Directory().Proc
	return restorable{world: w, dir: w.dir, backup: func() func() {
		saved := t.TempDir()
		must(t, proc.Pause()) // its file does not grow meanwhile
		must(t, os.CopyFS(saved, os.DirFS(proc.Dir())))
		must(t, proc.Resume())
		return func() {
			must(t, proc.Kill())
			entries, err := os.ReadDir(proc.Dir())
			must(t, err)
			for _, e := range entries {
				must(t, os.RemoveAll(proc.Dir()+"/"+e.Name()))
			}
			must(t, os.CopyFS(proc.Dir(), os.DirFS(saved)))
			must(t, proc.Restart(t.Context()))
		}
	}}
}

// inEtcd starts a fleet whose directory is in etcd, and is set back by storing all its keys as
// they were.
func inEtcd(t *testing.T, cfg devfleet.Config) restorable {
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	dir, _, err := etcd.Open(cluster.URL("f"))
	must(t, err)
	t.Cleanup(dir.Close)
	cfg.Directory = dir
	c := cluster.Members[0].Client(t)
	all := func() (keys map[string]string) {
		got, err := c.Get(t.Context(), "millrace/", clientv3.WithPrefix())
		must(t, err)
		keys = map[string]string{}
		for _, kv := range got.Kvs {
			keys[string(kv.Key)] = string(kv.Value)
		}
		return keys
	}
	return restorable{world: start(t, cfg), dir: dir, backup: func() func() {
		saved := all()
		return func() {
			var ops []clientv3.Op
			for key := range all() {
				if _, had := saved[key]; !had || strings.HasSuffix(key, "/agent") {
					ops = append(ops, clientv3.OpDelete(key)) // no lease is in a backup
				}
			}
			for key, value := range saved {
				if !strings.HasSuffix(key, "/agent") {
					ops = append(ops, clientv3.OpPut(key, value))
				}
			}
			_, err := c.Txn(t.Context()).Then(ops...).Commit()
			must(t, err)
		}
	}}
}

// TestTheDirectoryWentBack to a map of before a partition was added, which has tags since. The
// newest map wins, whether an agent remembers it or members alone.
func TestTheDirectoryWentBack(t *testing.T) {
	t.Parallel()
	for store, begin := range map[string]func(*testing.T, devfleet.Config) restorable{"Redis": inRedis, "etcd": inEtcd} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, agents restarted: %v", store, restarted), func(t *testing.T) {
				t.Parallel()
				w := begin(t, devfleet.Config{Partitions: 2})
				stop := w.agent(w.dir)
				f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
				w.settled(w.dir, f)
				restore := w.backup()
				must(t, w.servers.AddPartition(t.Context(), 1))
				var tags []string
				for i := range 12 {
					tags = append(tags, fmt.Sprint("t", i))
				}
				l := w.load(f, append(tags, w.tagOn(f, 2))...)
				l.goesOn()
				w.settled(w.dir, f)
				before := mapOf(t, w.dir)
				if restarted {
					stop()
				}
				restore()
				if restarted {
					w.agent(w.dir)
				}
				redistest.Eventually(t, "the directory has a map above the one that it lost", func() bool {
					m, err := w.dir.Confirm(t.Context(), 0)
					return err == nil && m.Epoch > before.Epoch
				})
				if m := mapOf(t, w.dir); len(m.Partitions) != 3 {
					t.Fatalf("the map of epoch %d has %d partitions, want the 3 of the map of epoch %d", m.Epoch, len(m.Partitions), before.Epoch)
				}
				late := w.client(w.dir, fleet.Config{WaitReplicas: 1})
				w.settled(w.dir, late)
				for _, tag := range tags {
					must(t, add(t.Context(), late, tag, "late"))
				}
				l.goesOn()
				l.check(late)
				events, err := w.dir.Events(t.Context())
				if must(t, err); !says(texts(events), "the directory had gone back to epoch") {
					t.Errorf("the log has %q, want that the directory had gone back", texts(events))
				}
			})
		}
	}
}

// TestConfirmedWentBack: the lost map has fewer replicas that confirm a write. By the old one
// the replica that lacks a write would be elected alone.
func TestConfirmedWentBack(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.Confirmed = 2
	w := inRedis(t, devfleet.Config{Partitions: 2, Replicas: 2, Settings: settings})
	stop := w.agent(w.dir)
	strict := w.client(w.dir, fleet.Config{WaitReplicas: 2})
	w.settled(w.dir, strict)
	tag := w.tagOn(strict, 0)
	restore := w.backup()
	_, err := directory.Edit(t.Context(), w.dir, func(next *directory.Map) (bool, error) {
		next.Settings.Confirmed = 1
		return true, nil
	})
	must(t, err)
	w.settled(w.dir, strict)
	p := mapOf(t, w.dir).Partitions[0]
	stop()
	w.do(p.Replicas[1].Addr, "REPLICAOF", "127.0.0.1", "1") // as if it had been cut off
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	redistest.Eventually(t, "a write is confirmed", func() bool { return add(t.Context(), f, tag, "confirmed") == nil })
	must(t, w.server(p.Master.Addr).Proc.Pause())
	must(t, w.server(p.Replicas[0].Addr).Proc.Pause())
	restore()
	w.agent(w.dir)
	redistest.Eventually(t, "the agent says that it can elect none, or has elected", func() bool {
		m, err := w.dir.Confirm(context.Background(), 0)
		if err == nil && !m.Partitions[0].ReadOnly && m.Partitions[0].Master.Addr == p.Replicas[1].Addr {
			return true
		}
		events, err := w.dir.Events(t.Context())
		return err == nil && says(texts(events), "no new master", "replicas answered")
	})
	must(t, w.server(p.Master.Addr).Proc.Resume())
	must(t, w.server(p.Replicas[0].Addr).Proc.Resume())
	w.serves(f, fleet.Healthy)
	if missing := lost(t, f, tag, []string{"confirmed"}); len(missing) > 0 {
		t.Errorf("the fleet has lost %v, which a replica has confirmed", missing)
	}
}

// TestTwoMapsOfOneEpoch: the directory was changed after it had lost maps. Agents change nothing
// until an operator has decided.
func TestTwoMapsOfOneEpoch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		more int64 // changes by which the directory has overtaken the copies
		from func(m *directory.Map) string
		want int // MaxFill
	}{
		"the map of a member is right":   {0, func(m *directory.Map) string { return m.Partitions[0].Master.Addr }, 61},
		"that of the directory is right": {0, func(*directory.Map) string { return recovery.TheDirectory }, 51},
		"the directory has overtaken it": {1, func(m *directory.Map) string { return m.Partitions[1].Master.Addr }, 61},
		"the directory's later one wins": {1, func(*directory.Map) string { return recovery.TheDirectory }, 51},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inRedis(t, devfleet.Config{Partitions: 2})
			stop := w.agent(w.dir)
			f := w.client(w.dir, fleet.Config{})
			w.settled(w.dir, f)
			restore := w.backup()
			edit := func(fill int) int64 {
				m, err := directory.Edit(t.Context(), w.dir, func(next *directory.Map) (bool, error) {
					next.Settings.MaxFill = fill
					return true, nil
				})
				must(t, err)
				return m.Epoch
			}
			edit(60)
			edit(61)
			w.settled(w.dir, f)
			stop()
			lost := mapOf(t, w.dir)
			newest := int64(0)
			for _, epoch := range w.copiesOf() {
				newest = max(newest, epoch)
			}
			restore()
			for edit(50) < newest+tc.more-1 {
			}
			edit(51)
			forked := mapOf(t, w.dir)
			if forked.Epoch != newest+tc.more {
				t.Fatalf("the directory has epoch %d, want %d", forked.Epoch, newest+tc.more)
			}
			w.agent(w.dir)
			redistest.Eventually(t, "the agent says that it changes nothing", func() bool {
				events, err := w.dir.Events(t.Context())
				return err == nil && says(texts(events), directory.Stopped, fmt.Sprint(newest), "--from")
			})
			if m := mapOf(t, w.dir); m.ID() != forked.ID() {
				t.Errorf("the agent has changed the map to %+v, want %+v", m, forked)
			}
			if _, err := find(t, recovery.Config{Directory: w.dir, Members: []string{lost.Partitions[0].Master.Addr}}); !errors.Is(err, recovery.ErrForked) {
				t.Errorf("Find = %v, want ErrForked", err)
			}
			found := w.find(recovery.Config{From: tc.from(lost), Members: []string{lost.Partitions[0].Master.Addr}})
			must(t, found.Store(t.Context(), "recover"))
			w.settled(w.dir, w.client(w.dir, fleet.Config{}))
			if m := mapOf(t, w.dir); m.Settings.MaxFill != tc.want {
				t.Errorf("MaxFill = %d, want that of %s, %d", m.Settings.MaxFill, found.From.From, tc.want)
			}
			events, err := w.dir.Events(t.Context())
			if must(t, err); !says(texts(events), "the agents go on") {
				t.Errorf("the log has %q, want that the agents go on", texts(events))
			}
		})
	}
}

// TestANewerCopyIsSeen by an agent that leads already, in a probe of the member that holds it, and
// by a new one in the archive.
func TestANewerCopyIsSeen(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *world, newer *directory.Map, held members.Copy){
		"by the leader": func(w *world, newer *directory.Map, held members.Copy) {
			w.do(newer.Partitions[1].Master.Addr, "SET", members.MapKey, held.String())
		},
		"in the archive": func(w *world, newer *directory.Map, held members.Copy) {
			archive := t.TempDir()
			must(t, os.WriteFile(filepath.Join(archive, newer.Fleet+".map"), []byte(held.String()), 0o600))
			w.agentWith(w.dir, archive)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Partitions: 2})
			stop := w.agent(w.dir)
			w.settled(w.dir, w.client(w.dir, fleet.Config{}))
			if name == "in the archive" {
				stop()
			}
			newer := mapOf(t, w.dir).Next()
			newer.Epoch += int64(time.Hour)
			newer.Settings.MaxFill = 61
			text, err := newer.Pack()
			must(t, err)
			begin(w, newer, members.Copy{Epoch: newer.Epoch, Text: text})
			redistest.Eventually(t, "the directory has the newer map", func() bool {
				m, err := w.dir.Confirm(t.Context(), 0)
				return err == nil && m.Epoch > newer.Epoch && m.Settings.MaxFill == 61
			})
			w.settled(w.dir, w.client(w.dir, fleet.Config{}))
		})
	}
}
