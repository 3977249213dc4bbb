package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// unfenced starts the server of a member again in its folder and at its address,
// without its boot fence, like a command typed by hand.
func (w *world) unfenced(victim devfleet.Server) *redisproc.Proc {
	w.t.Helper()
	_, port, err := net.SplitHostPort(victim.Addr)
	must(w.t, err)
	number, err := strconv.Atoi(port)
	must(w.t, err)
	proc, err := redisproc.Start(w.t.Context(), redisproc.Config{Binary: redistest.Binary(w.t), Dir: victim.Proc.Dir(), Port: number})
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, errors.Join(proc.Kill(), proc.Stop())) })
	return proc
}

// processes runs the servers of members, fenced or not.
type processes struct {
	w     *world
	loose map[string]*redisproc.Proc // those that were started without their fence
}

// kind is a kind of fault. A server that was saved comes back with that file, unless the
// file is deleted.
type kind struct {
	name                            string
	pause, save, wipe, loose, twice bool
}

var kinds = []kind{
	{name: "killed"},
	{name: "paused", pause: true},
	{name: "older data, without its fence", save: true, loose: true},
	{name: "older data", save: true},
	{name: "twice in a second", save: true, twice: true},
	{name: "no data, without its fence", wipe: true, loose: true},
	{name: "paused", pause: true},
	{name: "no data, twice", wipe: true, twice: true},
	{name: "older data, without its fence, twice", save: true, loose: true, twice: true},
	{name: "killed"},
}

// strike does something to a server, and has it come back.
func (p *processes) strike(s devfleet.Server, k kind) {
	t, ctx := p.w.t, p.w.t.Context()
	t.Helper()
	proc := s.Proc
	if loose := p.loose[s.Addr]; loose != nil {
		proc = loose
	}
	if k.pause {
		must(t, proc.Pause())
		retry.Sleep(ctx, rand.N(1500*time.Millisecond))
		must(t, proc.Resume())
		return
	}
	if k.save {
		d := direct(t, s.Addr)
		save(t, d)
		retry.Sleep(ctx, rand.N(100*time.Millisecond)) // for something to be written that it will lack
	}
	for range map[bool]int{false: 1, true: 2}[k.twice] {
		must(t, proc.Kill())
		if k.wipe {
			if err := os.Remove(filepath.Join(proc.Dir(), "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		retry.Sleep(ctx, rand.N(300*time.Millisecond))
		if k.loose {
			proc = p.w.unfenced(s)
			p.loose[s.Addr] = proc
		} else {
			proc = s.Proc
			delete(p.loose, s.Addr)
			must(t, proc.Restart(ctx))
		}
	}
}

// save has a server save its data, as soon as it makes no copy for a replica.
func save(t *testing.T, d rueidis.Client) {
	t.Helper()
	redistest.Eventually(t, "the server has saved", func() bool { return d.Do(t.Context(), d.B().Save().Build()).Error() == nil })
}

// direct returns a client of one server.
func direct(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestAMasterIsBackWithOlderData at once, before an agent has missed it: a value that a replica
// confirmed after its snapshot is not lost, and the older one is not read, with its boot fence and
// without it: a connection belongs to one run.
func TestAMasterIsBackWithOlderData(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		t.Run(map[bool]string{true: "fenced", false: "unfenced"}[fenced], func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
			w.agent()
			f := w.client(fleet.Config{WaitReplicas: 1})
			c, ctx := f.Client(), t.Context()
			w.settled(f, 0)
			set := func(value string) {
				t.Helper()
				must(t, retry.Policy{}.Do(ctx, func(int) error { return c.Do(ctx, c.B().Set().Key("{a}").Value(value).Build()).Error() }))
			}
			set("old")
			victim := w.server(w.mapNow().Partitions[0].Master.Addr)
			d := direct(t, victim.Addr)
			save(t, d)
			set("new")

			var mu sync.Mutex
			var old []string
			reading, stop := context.WithCancel(ctx)
			var readers sync.WaitGroup
			for range 8 {
				readers.Go(func() {
					for reading.Err() == nil {
						got, err := c.Do(reading, c.B().Get().Key("{a}").Build()).ToString()
						if (err == nil || rueidis.IsRedisNil(err)) && got != "new" {
							mu.Lock()
							old = append(old, got)
							mu.Unlock()
						}
					}
				})
			}
			must(t, victim.Proc.Kill())
			if fenced {
				must(t, victim.Proc.Restart(ctx))
			} else {
				w.unfenced(victim)
			}
			redistest.Eventually(t, "the replica is the master", func() bool {
				p := w.mapNow().Partitions[0]
				return !p.ReadOnly && p.Master.Addr != victim.Addr
			})
			w.settled(f, 0)
			stop()
			readers.Wait()
			if len(old) > 0 {
				t.Errorf("%d reads saw %q, which was replaced before, want none", len(old), old[0])
			}
			boot := map[bool]string{true: directory.BootFenced, false: directory.BootOpen}[fenced]
			redistest.Eventually(t, "the map says how the member came back", func() bool {
				return slices.ContainsFunc(w.mapNow().Partitions[0].Replicas, func(m directory.Member) bool { return m.Addr == victim.Addr && m.Boot == boot })
			})
			for _, m := range w.mapNow().Partitions[0].Members() {
				d := direct(t, m.Addr)
				if got, err := d.Do(ctx, d.B().Get().Key("{a}").Build()).ToString(); got != "new" || err != nil {
					t.Errorf("%s has %q, %v, want what was confirmed", m.Addr, got, err)
				}
			}
			if events, err := w.dir.Events(ctx); err != nil || len(events) < 2 {
				t.Errorf("the log has %v, %v, want what was done", events, err)
			}
		})
	}
}
