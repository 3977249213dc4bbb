// The simulation: agents, the real ones, look after a fleet that is played in memory,
// on the fake clock of testing/synctest. Hours of faults take a second.
//
// A schedule lists the faults, and is drawn from a seed: members die and come back,
// fenced or not, once or twice in a second, from a snapshot, from a log or empty; members, agents, clients and the directory
// stop, are slow, or are cut off from each other; the directory is restored from an
// old file. Then all faults end, and all must be well within a minute. Every call from one
// process to another goes through one function, world.carry, which is the
// network. There an agent can be stopped or killed at each of its calls, too.
//
// All of it happens with each store of the directory: with Redis, which is one server and forgets
// nothing, and with etcd, of whose servers a majority answers or none. The agents' directory is the
// real one, on a store that is played.
//
// Each write is in a ledger, and the invariants of the protocol are checked as things
// happen:
//
//	I1  one writable epoch of a partition       checkSuccess
//	I2  no success from a master that was       checkSuccess
//	    replaced by one that lacks the write
//	I3  a write confirmed by a replica is not   concede
//	    lost
//	I4  else only writes are lost that no       concede, checkCopy, checkEnd
//	    electable member had
//	I5  a member without data is not the        checkMaster, checkCopy
//	    master, and no member copies it
//	I6  epochs never go back                    checkChange, client.refresh
//	I7  read-only ends                          recover, well
//	P   when more members lose power than have  checkDark
//	    a confirmed write, the newest file leads,
//	    and a person decides about an old one
//	R   a member's data on disk is not read     checkRead
//	    before it was examined
//	G   new partitions are opened when all         checkGrowth, well
//	    clients and copies of the map know them
//	T   a member leaves when others have all    checkTask, well
//	    data; tasks end
//
// (I8 is about places of tags, and shown in package fleet.)
//
// In the order of the story: sim_test.go, runs and their seeds;
// sim_world_test.go, time, chance and the network; sim_server_test.go, members;
// sim_directory_test.go and sim_etcd_test.go, the directory; sim_agent_test.go and
// sim_call_test.go, processes with agents, and how these reach the others;
// sim_client_test.go; sim_faults_test.go, sim_power_test.go, sim_task_test.go and sim_growth_test.go, faults and commands;
// sim_check_test.go, the ledger and the invariants. Then come the tests for which a script takes the place of chance:
// sim_step_test.go, sim_story_test.go, sim_calm_test.go and sim_protection_test.go,
// where protections are taken out and an invariant must break.
//
// A seed that fails prints its history, and belongs into testdata/seeds, which every run replays. To
// see it again:
//
//	MILLRACE_SIM_SEED=89 go test ./internal/fleet/failover -run 'TestSchedules/etcd' -v

package failover_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/ring"
)

// run lets a schedule happen and returns the world as it is then.
func run(t *testing.T, s schedule) (w *world) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s)
		ctx, stop := context.WithCancel(context.Background())
		w.begin(ctx)
		w.happen()
		w.recover()
		w.mu.Lock()
		w.over = true
		stop()
		for _, a := range w.agents {
			a.now.end()
		}
		w.mu.Unlock()
		w.working.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.healed > 0 {
			w.checkEnd()
		}
	})
	return w
}

func newWorld(s schedule) *world {
	s.settings.MaxAge = cmp.Or(s.settings.MaxAge, time.Hour) // no person decides, unless the schedule has one
	w := &world{
		schedule: s, rng: rand.New(rand.NewPCG(s.seed, 7)), start: time.Now(),
		drawn: map[[2]int]uint64{}, cuts: map[[2]int]bool{}, turned: map[int]turn{}, dark: map[int]time.Duration{},
		ledger: ledger{epochs: map[[2]int64]*server{}},
	}
	points, err := ring.New(slices.Repeat([]int{1}, s.parts)...)
	if err != nil {
		panic(err) // a schedule has a few partitions
	}
	m := &directory.Map{Version: directory.Version, Fleet: "sim", Epoch: 1, Floor: 1, Settings: s.settings, Points: points.Points()}
	for i := range s.parts {
		p := w.newPartition(i, 1)
		m.Partitions = append(m.Partitions, p)
		w.ledger.reigns = append(w.ledger.reigns, reign{i, 1, w.server(p.Master.Addr)})
	}
	for i := range s.spares * s.parts {
		one := w.spare(i%s.parts, i/s.parts)
		if w.add(one); s.settings.ReplaceAfter > 0 {
			m.Spares = append(m.Spares, directory.Member{Addr: one.name, Node: fmt.Sprint("node of spare ", i)})
		}
	}
	w.dir = w.newDirectory(m)
	for i := range 2 {
		w.clients = append(w.clients, &client{host: w.newHost(fmt.Sprint("client ", i+1)), w: w, wrote: map[int]time.Time{}})
	}
	for i := range 2 + int(s.seed%2) {
		w.agents = append(w.agents, &agency{w: w, number: i + 1})
	}
	return w
}

// add adds a server to the world.
func (w *world) add(s *server) {
	w.servers = append(w.servers, s)
	w.byName.Store(s.name, s)
}

func (w *world) server(addr string) *server {
	s, _ := w.byName.Load(addr)
	found, _ := s.(*server)
	return found
}

// everybody returns all hosts on the network.
func (w *world) everybody() []*host {
	var all []*host
	w.dir.everyKeeper(func(h *host) { all = append(all, h) })
	for _, s := range w.servers {
		all = append(all, &s.host)
	}
	for _, c := range w.clients {
		all = append(all, &c.host)
	}
	for _, a := range w.agents {
		all = append(all, &a.now.host)
	}
	return all
}

// begin starts all hosts.
func (w *world) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		c.run(ctx)
	}
	for i, a := range w.agents {
		d := time.Duration(w.rng.IntN(300)) * time.Millisecond
		if w.script != nil {
			d = time.Duration(i) * 100 * time.Millisecond // the first one leads
		}
		w.later(d, a.start)
	}
	w.working.Go(func() {
		for retry.Sleep(ctx, 25*time.Millisecond+time.Nanosecond) {
			w.mu.Lock()
			for _, s := range w.servers {
				s.step()
			}
			w.dir.step()
			w.decide()
			w.mu.Unlock()
		}
	})
}

// happen is the time of the faults.
func (w *world) happen() {
	time.Sleep(2 * time.Second)
	if w.script != nil {
		w.script(w)
		return
	}
	of := w.only
	if of == nil {
		of = faults()
	}
	for range w.faults {
		var d time.Duration
		w.with(func() {
			pick(w, of)(w)
			d = w.between()
		})
		time.Sleep(d)
	}
}

// recoveryTimeout is how long it may take until all is well when there are no faults any
// more.
const recoveryTimeout = 60 * time.Second

// recover is the time after the faults.
func (w *world) recover() {
	w.mu.Lock()
	w.calmDown()
	w.mu.Unlock()
	for {
		time.Sleep(100 * time.Millisecond)
		w.mu.Lock()
		trouble, took := w.well(), time.Since(w.calmed)
		switch {
		case trouble == "":
			w.healed = took
			w.say("all is well after %v", took)
		case took > recoveryTimeout:
			w.fail("I7: after %v %s", took, trouble)
		}
		w.mu.Unlock()
		if trouble == "" || took > recoveryTimeout {
			return
		}
	}
}

// lenient is Settings.Confirmed where clients wait for no replica: more than a partition has,
// so that one of them is enough in elections.
const lenient = 9

// random returns a schedule that is drawn from a seed.
func random(seed uint64) schedule {
	rng := rand.New(rand.NewPCG(seed, 1))
	confirmed := rng.IntN(2)
	return schedule{
		seed: seed, confirmed: confirmed, replicas: 1 + rng.IntN(2), parts: 1 + rng.IntN(2), faults: 3 + rng.IntN(12),
		every: []time.Duration{100, 200, 500}[rng.IntN(3)] * time.Millisecond,
		settings: directory.Settings{
			ViewTTL:      time.Duration(200+rng.IntN(800)) * time.Millisecond,
			ReplyTimeout: time.Duration(200+rng.IntN(300)) * time.Millisecond,
			Confirmed:    cmp.Or(confirmed, lenient),
		},
	}
}

func soak() bool { return os.Getenv("MILLRACE_SOAK") != "" }

// TestSchedules runs agents through faults of all kinds. MILLRACE_SIM_SEED runs one
// seed alone and prints its history, MILLRACE_SOAK runs twenty times as many.
func TestSchedules(t *testing.T) {
	t.Parallel()
	forSeeds(t, 300, random)
}

// TestEverybodyLeads has all agents lead at the same time, until all is calm.
// The lease only avoids conflicts; safety rests on epochs.
func TestEverybodyLeads(t *testing.T) {
	t.Parallel()
	forSeeds(t, 60, func(seed uint64) schedule {
		s := random(seed)
		s.leaders = true
		return s
	})
}

// TestRestoredDirectory has the directory come back with any map that it had, more than once,
// alone or with all agents, while servers are stopped and cut off. (A server that loses its
// data may be the only one that knew of its election.)
func TestRestoredDirectory(t *testing.T) {
	t.Parallel()
	forSeeds(t, 120, func(seed uint64) schedule {
		s := random(seed)
		s.restores = true
		s.only = []fault{
			stopAny, stopMaster, cutAgentFromServer, cutAgentFromMaster, cutAgentFromDirectory, cutClientFromDirectory,
			killAgent, stopAgent, stopDirectory, killDirectory, killDirectory, killDirectory, endAll, endAll, endAll,
		}
		return s
	})
}

// TestRestoredDirectoryDuringTasks has it go back while members join, leave and are restarted.
// The members of one partition alone may all be replaced, or down, and then none is left that
// has a newer copy.
func TestRestoredDirectoryDuringTasks(t *testing.T) {
	t.Parallel()
	forSeeds(t, 120, func(seed uint64) schedule {
		s := random(seed)
		s.restores, s.parts, s.spares, s.faults = true, 2, 2, 2*s.faults
		s.only = slices.Concat(tasks(), tasks(), []fault{
			stopAny, stopMaster, cutAgentFromServer, cutAgentFromMaster, cutAgentFromDirectory, cutClientFromDirectory,
			killAgent, stopAgent, stopDirectory, endAll, endAll, endAll, endAll,
		})
		return s
	})
}

// forSeeds runs the schedules of so many seeds on each store, and prints the histories of
// the first that fail.
func forSeeds(t *testing.T, count uint64, make func(seed uint64) schedule) {
	t.Helper()
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			runSeeds(t, count, func(seed uint64) schedule {
				s := make(seed)
				s.store = store
				return s
			})
		})
	}
}

// corpus returns the seeds from another one on with which a test has failed.
func corpus(t *testing.T, from uint64) (seeds []uint64) {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != test {
			continue
		}
		seed, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if seed >= from {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

func runSeeds(t *testing.T, count uint64, make func(seed uint64) schedule) {
	t.Helper()
	first := uint64(1)
	alone := os.Getenv("MILLRACE_SIM_SEED")
	switch {
	case alone != "":
		var err error
		if first, err = strconv.ParseUint(alone, 10, 64); err != nil {
			t.Fatal(err)
		}
		count = 1
	case soak():
		count *= 20
	default:
		count = max(1, count/slow)
	}
	seeds := slices.Collect(func(yield func(uint64) bool) {
		for n := range count {
			if !yield(first + n) {
				return
			}
		}
	})
	if alone == "" {
		seeds = append(seeds, corpus(t, first+count)...)
	}
	var next, failures, longest atomic.Int64
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for n := next.Add(1); n <= int64(len(seeds)) && failures.Load() < 3; n = next.Add(1) {
				seed := seeds[n-1]
				w := run(t, make(seed))
				longest.Store(max(longest.Load(), int64(w.healed)))
				switch {
				case len(w.wrong) > 0:
					failures.Add(1)
					t.Errorf("seed %d: %s\n%s", seed, w.wrong[0], w.history())
				case alone != "":
					t.Logf("seed %d:\n%s", seed, w.history())
				}
			}
		})
	}
	running.Wait()
	t.Logf("all was well after at most %v", time.Duration(longest.Load()))
}
