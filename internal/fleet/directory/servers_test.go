package directory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// replicated returns a directory on a master and its replicas, which hold the map
// with epoch 1. It is named last, so that the replicas are asked first.
func replicated(t *testing.T, replicas int) (*Redis, *redistest.Replication) {
	t.Helper()
	r := redistest.Replicated(t, replicas)
	// The master counts a replica when that has said how far it is, up to a second
	// later.
	c := r.Master.Client(t)
	redistest.Eventually(t, "the master counts its replicas", func() bool {
		n, err := c.Do(t.Context(), c.B().Wait().Numreplicas(int64(replicas)).Timeout(2000).Build()).AsInt64()
		return err == nil && n == int64(replicas)
	})
	d, first := dial(t, r.Master.Addr()), sample(t, 1)
	redistest.Eventually(t, "a replica has the first map", func() bool {
		err := d.Change(t.Context(), 0, first)
		if err != nil && !errors.Is(err, ErrUnconfirmed) {
			t.Fatal(err)
		}
		return err == nil
	})
	awaitMap(t, r.Replicas, 1)
	return dial(t, addrs(r)...), r
}

func addrs(r *redistest.Replication) []string {
	var list []string
	for _, s := range append(r.Replicas, r.Master) {
		list = append(list, s.Addr())
	}
	return list
}

// awaitMap waits until servers hold the map with that epoch: a change waits for one
// replica only.
func awaitMap(t *testing.T, servers []*redistest.Server, epoch int64) {
	t.Helper()
	for _, s := range servers {
		d := dial(t, s.Addr())
		redistest.Eventually(t, "the replica has the map", func() bool {
			m, err := d.Load(t.Context())
			return err == nil && m.Epoch == epoch
		})
	}
}

// promote makes a replica a master, as an operator does.
func promote(t *testing.T, s *redistest.Server) {
	t.Helper()
	must(t, s.Client(t), "REPLICAOF", "NO", "ONE")
}

// within returns a context that ends soon enough for a client that writes.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestReplicaDecidesNothing asks a replica alone.
func TestReplicaDecidesNothing(t *testing.T) {
	t.Parallel()
	_, r := replicated(t, 1)
	d := dial(t, r.Replicas[0].Addr())
	m, err := d.Load(t.Context())
	wantMap(t, "Load", m, err, sample(t, 1))
	for _, epoch := range []int64{0, 1, 2} {
		if m, err := d.Confirm(t.Context(), epoch); !retry.Code(err, "READONLY") {
			t.Errorf("Confirm(%d) of a replica = %v, %v, want READONLY", epoch, m, err)
		}
	}
	err = d.Change(within(t, 200*time.Millisecond), 1, sample(t, 2))
	wantError(t, "Change of a replica", err, context.DeadlineExceeded)
	if err := d.Note(t.Context(), Event{What: "x"}); !retry.Code(err, "READONLY") {
		t.Errorf("Note to a replica = %v, want READONLY", err)
	}
	if events, err := d.Events(t.Context()); err != nil || len(events) != 0 {
		t.Errorf("Events of a replica = %v, %v, want none", events, err)
	}
}

// TestMasterDies: reads go on, nothing is confirmed until another one is master, and
// then the same directory finds it.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	d, r := replicated(t, 2)
	wantConfirmed(t, d, 1)
	r.Master.Kill()
	for range 2 * len(d.servers) {
		m, err := d.Load(t.Context())
		wantMap(t, "Load without a master", m, err, sample(t, 1))
	}
	if m, err := d.Confirm(t.Context(), 1); err == nil {
		t.Errorf("Confirm without a master = %v, want an error", m)
	}
	if _, err := d.Events(t.Context()); err != nil {
		t.Errorf("Events without a master = %v", err)
	}
	changed := make(chan error, 1)
	go func() { changed <- d.Change(t.Context(), 1, sample(t, 2)) }() // waits for a master
	promote(t, r.Replicas[1])
	wantError(t, "Change during the failover", <-changed, nil)
	wantConfirmed(t, d, 2)
	r.Master.Restart() // empty, and takes writes
	wantConfirmed(t, d, 2)
	m, err := d.Load(t.Context())
	if err != nil {
		t.Errorf("Load beside an empty server = %+v, %v", m, err)
	}
}

// TestEmptyServerIsNoFleet: that there is no fleet is believed only if all servers
// say so.
func TestEmptyServerIsNoFleet(t *testing.T) {
	t.Parallel()
	empty, dead := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	d := dial(t, empty.Addr(), dead.Addr())
	_, err := d.Load(t.Context())
	wantError(t, "Load from empty servers", err, ErrNoFleet)
	dead.Kill()
	for range 2 {
		if _, err := d.Load(t.Context()); err == nil || errors.Is(err, ErrNoFleet) {
			t.Errorf("Load from an empty and a dead server = %v, want that one is dead", err)
		}
	}
}

// prompt is how soon a call returns that is cancelled, at best: on a machine that is
// busy the next moment may be late.
const prompt = 50 * time.Millisecond

// TestFrozenMaster stops the master, which then accepts connections and says
// nothing. No call takes longer than its context, and the other servers are asked in
// time.
func TestFrozenMaster(t *testing.T) {
	t.Parallel()
	d, r := replicated(t, 2)
	wantConfirmed(t, d, 1)
	r.Master.Pause()
	defer r.Master.Resume()
	for range 2 * len(d.servers) {
		m, err := d.Load(within(t, time.Second))
		wantMap(t, "Load beside a frozen master", m, err, sample(t, 1))
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"Confirm": func(ctx context.Context) error { _, err := d.Confirm(ctx, 1); return err },
		"Change":  func(ctx context.Context) error { return d.Change(ctx, 1, sample(t, 2)) },
		"Note":    func(ctx context.Context) error { return d.Note(ctx, Event{What: "x"}) },
	} {
		best := time.Hour
		for try := 0; try < 20 && best > prompt; try++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var cancelled time.Time
			timer := time.AfterFunc(120*time.Millisecond, func() {
				cancelled = time.Now()
				cancel()
			})
			switch err := call(ctx); {
			case err == nil:
				t.Errorf("%s of a frozen master succeeds", name)
			case errors.Is(err, context.Canceled):
				best = min(best, time.Since(cancelled))
			default: // the connection was given up just now
				timer.Stop()
			}
			cancel()
		}
		if best > prompt {
			t.Errorf("%s returns %v after the cancel, more than %v", name, best, prompt)
		}
	}
	began := time.Now()
	if _, err := d.Confirm(within(t, 300*time.Millisecond), 1); err == nil || time.Since(began) > time.Second {
		t.Errorf("Confirm of a frozen master = %v after %v", err, time.Since(began))
	}

	promote(t, r.Replicas[1])
	m, err := d.Confirm(within(t, time.Second), 1)
	wantMap(t, "Confirm beside the frozen master", m, err, nil)
	if err := d.Change(within(t, 2*time.Second), 1, sample(t, 3)); err != nil {
		t.Errorf("Change beside the frozen master = %v", err)
	}
	// A process that begins now has the same answers.
	began = time.Now()
	fresh := dial(t, r.Master.Addr(), r.Replicas[0].Addr(), r.Replicas[1].Addr())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Dial takes %v", took)
	}
	m, err = fresh.Confirm(within(t, time.Second), 1)
	wantMap(t, "the first Confirm beside the frozen master", m, err, sample(t, 3))
}

// TestFrozenBetween: the master freezes after it was found and before it is told the
// change, when the connection for that is opened or when it is used. Whoever cancels
// the change then need not wait.
func TestFrozenBetween(t *testing.T) {
	t.Parallel()
	_, r := replicated(t, 1)
	defer r.Master.Resume()
	for _, moment := range []string{"HELLO", "EVAL"} {
		best := time.Hour
		for try := 0; try < 20 && best > prompt; try++ {
			d, frozen := freezeAt(t, r, moment)
			ctx, cancel := context.WithCancel(t.Context())
			changed := make(chan error, 1)
			go func() { changed <- d.Change(ctx, 1, sample(t, 2)) }()
			<-frozen
			cancelled := time.Now()
			cancel()
			wantError(t, "Change that was cancelled", <-changed, context.Canceled)
			best = min(best, time.Since(cancelled))
			r.Master.Resume()
		}
		if best > prompt {
			t.Errorf("Change returns %v after the cancel, more than %v, frozen at %s", best, prompt, moment)
		}
	}
	// What was sent and cancelled may be done all the same.
	awaitMap(t, []*redistest.Server{r.Master, r.Replicas[0]}, 2)
	// Who is patient sees the change go to the next master.
	d, frozen := freezeAt(t, r, "EVAL")
	changed := make(chan error, 1)
	go func() { changed <- d.Change(within(t, 15*time.Second), 2, sample(t, 3)) }()
	<-frozen
	promote(t, r.Replicas[0])
	wantError(t, "Change", <-changed, nil)
	wantConfirmed(t, d, 3)
}

// freezeAt returns a directory whose master freezes when it is sent a command of
// that name, which is when frozen is closed.
func freezeAt(t *testing.T, r *redistest.Replication, name string) (d *Redis, frozen <-chan struct{}) {
	t.Helper()
	proxy := redistest.NewTCPProxy(t, r.Master.Addr())
	d = dial(t, proxy.Addr(), r.Replicas[0].Addr())
	if _, err := d.Confirm(t.Context(), 0); err != nil { // it knows the master and the script
		t.Fatal(err)
	}
	once := make(chan struct{})
	proxy.DropReplyWhen(func(cmd []string) bool {
		if redistest.Named(name)(cmd) {
			select {
			case <-once:
			default:
				r.Master.Pause()
				close(once)
			}
		}
		return false
	})
	return d, once
}

// TestHangingServer: that the client gives a silent connection up looks like the end
// of a context, but is none of the caller's. A change goes on.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Pause()
	defer server.Resume()
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
	option.Dialer.Timeout = 50 * time.Millisecond
	d := dialWith(t, option)
	changed := make(chan error, 1)
	go func() { changed <- d.Change(t.Context(), 0, sample(t, 1)) }()
	for range 3 {
		_, err := d.Confirm(t.Context(), 1)
		wantError(t, "Confirm", err, ErrSilent)
	}
	server.Resume()
	wantError(t, "Change", <-changed, nil)
	wantConfirmed(t, d, 1)
}

// TestMasterIsRemembered: the replicas, which are named first, are not asked by those
// who know the master.
func TestMasterIsRemembered(t *testing.T) {
	t.Parallel()
	d, r := replicated(t, 2)
	wantConfirmed(t, d, 1)
	asked := func() (list []string) {
		for _, s := range r.Replicas {
			stats := s.Info("commandstats")
			list = append(list, stats["cmdstat_eval"], stats["cmdstat_evalsha"], stats["cmdstat_hget"])
		}
		return list
	}
	before := asked()
	change(t, d, 1, sample(t, 2))
	wantConfirmed(t, d, 2)
	if err := d.Note(t.Context(), Event{What: "x"}); err != nil {
		t.Fatal(err)
	}
	if events, err := d.Events(t.Context()); err != nil || len(events) != 1 {
		t.Errorf("Events = %v, %v, want the one that was just noted", events, err)
	}
	if diff := cmp.Diff(before, asked()); diff != "" {
		t.Errorf("the replicas were asked (-before +after):\n%s", diff)
	}
}

// TestMasterWithoutReplica freezes the replica of a master that must have one. Soon
// the master confirms nothing any more: the replica may have been made master. It is
// the first command of the script that brings this about.
func TestMasterWithoutReplica(t *testing.T) {
	t.Parallel()
	_, r := replicated(t, 1)
	d := dial(t, r.Master.Addr())
	const lag = time.Second
	must(t, r.Master.Client(t), "CONFIG", "SET", "min-replicas-max-lag", "1")
	must(t, r.Master.Client(t), "CONFIG", "SET", "min-replicas-to-write", "1")
	redistest.Eventually(t, "the replica is there", func() bool { _, err := d.Confirm(t.Context(), 1); return err == nil })
	r.Replicas[0].Pause()
	defer r.Replicas[0].Resume()
	began := time.Now()
	redistest.Eventually(t, "the master confirms nothing", func() bool {
		_, err := d.Confirm(t.Context(), 1)
		return retry.Code(err, "NOREPLICAS")
	})
	if took := time.Since(began); took > lag+2*time.Second {
		t.Errorf("the master went on confirming for %v", took)
	}
	for _, epoch := range []int64{0, 1} {
		if m, err := d.Confirm(t.Context(), epoch); !retry.Code(err, "NOREPLICAS") {
			t.Errorf("Confirm(%d) = %v, %v, want NOREPLICAS", epoch, m, err)
		}
	}
	careless := dial(t, r.Master.Addr())
	for _, run := range careless.servers {
		run.Scripts = scripttest.Without(t, library, probe, "")
	}
	if _, err := careless.confirm(t.Context(), 1, nil); err != nil {
		t.Errorf("Confirm = %v without the protection: it was not what stopped the master", err)
	}
}

// TestUnconfirmed changes the map while the replica is frozen: the map is stored,
// and whoever changed it knows that the replica may not have it. The repeat, also over
// another connection, succeeds when the replica has it, and not before.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	d, r := replicated(t, 1)
	r.Replicas[0].Pause()
	defer r.Replicas[0].Resume()
	next := sample(t, 2)
	for _, by := range []*Redis{d, dial(t, addrs(r)...)} {
		began := time.Now()
		wantError(t, "Change", by.Change(t.Context(), 1, next), ErrUnconfirmed)
		if took := time.Since(began); took < waitForReplica || took > waitForReplica+time.Second {
			t.Errorf("Change takes %v, want a little more than %v", took, waitForReplica)
		}
	}
	wantConfirmed(t, d, 2)
	wantError(t, "Change by somebody else", d.Change(t.Context(), 1, sample(t, 3)), ErrConflict)
	r.Replicas[0].Resume()
	change(t, d, 1, next)
	m, err := dial(t, r.Replicas[0].Addr()).Load(t.Context())
	wantMap(t, "Load from the replica", m, err, next)
}

// TestOldFile restarts the directory with a file from before a change. It says then
// what that file says: the older map, with its lower epoch, which is what callers
// must look at. Who changes the map on top of it takes an epoch that is higher than
// all that were ever seen.
func TestOldFile(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	change(t, d, 0, sample(t, 1))
	must(t, server.Client(t), "SAVE")
	change(t, d, 1, sample(t, 2))
	server.Kill()
	server.Restart()
	redistest.Eventually(t, "the directory answers", func() bool { _, err := d.Load(t.Context()); return err == nil })
	m, err := d.Confirm(t.Context(), 2)
	wantMap(t, "Confirm of a map that was lost", m, err, sample(t, 1))
	m, err = d.Load(t.Context())
	wantMap(t, "Load", m, err, sample(t, 1))
	wantError(t, "Change of the map that was lost", d.Change(t.Context(), 2, sample(t, 3)), ErrConflict)
	change(t, d, 1, sample(t, 3))
	m, err = d.Confirm(t.Context(), 2)
	wantMap(t, "Confirm after the repair", m, err, sample(t, 3))
}

// TestSentinels follows a failover, with what was changed before.
func TestSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinels(t, 1)
	d := dialWith(t, rueidis.MustParseURL(s.URL()))
	change(t, d, 0, sample(t, 1))
	wantConfirmed(t, d, 1)
	s.Failover()
	redistest.Eventually(t, "the map is confirmed by the new master", func() bool {
		m, err := d.Confirm(within(t, time.Second), 1)
		return m == nil && err == nil
	})
	change(t, d, 1, sample(t, 2))
	m, err := d.Load(t.Context())
	wantMap(t, "Load after the failover", m, err, sample(t, 2))
}

// TestDial: servers may come later, but some must be named.
func TestDial(t *testing.T) {
	t.Parallel()
	_, err := Dial(rueidis.ClientOption{})
	wantError(t, "Dial of nothing", err, ErrNoFleet)
	server := redistest.Start(t, redistest.Options{TCP: true})
	server.Kill()
	d := dial(t, server.Addr())
	if _, err := d.Load(t.Context()); err == nil {
		t.Error("Load from a server that is not there succeeds")
	}
	server.Restart()
	change(t, d, 0, sample(t, 1))
	option := rueidis.MustParseURL("redis://" + server.Addr() + "?master_set=main")
	if _, err := Dial(option); err == nil {
		t.Error("Dial of Sentinels that are none succeeds")
	}
}

// TestAnothersCancellation: two calls need a connection, and only one is opened. That
// the caller who began to open it goes away does not end the call of the other.
func TestAnothersCancellation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	change(t, dial(t, server.Addr()), 0, sample(t, 1))
	for range 5 {
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.Refuse(true)
		d := dial(t, proxy.Addr()) // without a connection
		proxy.Refuse(false)
		proxy.HalfClose() // whoever opens one now waits for the greeting
		ctx, cancel := context.WithCancel(t.Context())
		ended, confirmed := make(chan error, 1), make(chan error, 1)
		for done, ctx := range map[chan error]context.Context{ended: ctx, confirmed: t.Context()} {
			go func() {
				_, err := d.Confirm(ctx, 1)
				done <- err
			}()
		}
		cancel()
		wantError(t, "Confirm that was cancelled", <-ended, context.Canceled)
		proxy.Heal()
		wantError(t, "Confirm beside it", <-confirmed, nil)
	}
}
