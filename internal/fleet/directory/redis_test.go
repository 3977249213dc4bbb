package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// isPut reports whether a command is the script of a put. That of a hold, which comes as EVAL, too,
// where a server does not know it, has fewer arguments.
func isPut(cmd []string) bool { return redistest.Named("EVAL", "EVALSHA")(cmd) && len(cmd) > 6 }

// TestLostReplies: the server executes calls, and their replies are lost. Each takes effect once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Durable(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := dial(t, proxy.Addr())
	change(t, d, 0, sample(t, 1))
	lost := proxy.DropReply(isPut)
	next := sample(t, 2)
	next.Settings.MaxFill = 50
	change(t, d, 1, next)
	if lost.Count() != 1 {
		t.Errorf("%d replies of changes were lost, want 1", lost.Count())
	}
	if got, want := server.Info("commandstats")["cmdstat_hset"], "calls=2,"; !strings.HasPrefix(got, want) {
		t.Errorf("HSET of two changes: %s, want %s", got, want)
	}
	m, err := d.Confirm(t.Context(), 1)
	wantMap(t, "Confirm", m, err, next)

	lost = proxy.DropReply(isPut)
	if err := d.Note(t.Context(), Event{What: "x"}); err != nil {
		t.Errorf("Note = %v", err)
	}
	if events, err := d.Events(t.Context()); err != nil || len(events) != 1 || lost.Count() != 1 {
		t.Errorf("Events = %v, %v after %d lost replies, want one", events, err, lost.Count())
	}
	// The connection of a confirmation may be lost, too. The next call has a new one.
	proxy.Cut()
	redistest.Eventually(t, "the map is confirmed on a new connection", func() bool {
		m, err := d.Confirm(t.Context(), 2)
		return m == nil && err == nil
	})
}

// TestOneWins has several change the same map at the same time, over a network that
// loses replies.
func TestOneWins(t *testing.T) {
	t.Parallel()
	server := redistest.Durable(t)
	proxy := redistest.NewProxy(t, server.Addr())
	random := rand.New(rand.NewPCG(1, 2))
	changers := make([]*Directory, 4)
	for i := range changers {
		changers[i] = dial(t, proxy.Addr())
	}
	reader := dial(t, server.Addr())
	lost := proxy.DropReplyWhen(func(cmd []string) bool { return isPut(cmd) && random.IntN(8) == 0 })
	const rounds = 50
	for epoch := range int64(rounds) {
		errs := make([]error, len(changers))
		var all sync.WaitGroup
		for i, d := range changers {
			next := sample(t, epoch+1)
			next.Fleet = strconv.Itoa(i)
			all.Go(func() { errs[i] = d.Change(t.Context(), epoch, next) })
		}
		all.Wait()
		m, err := reader.Load(t.Context())
		if err != nil || m.Epoch != epoch+1 {
			t.Fatalf("round %d: Load = %+v, %v", epoch, m, err)
		}
		for i, err := range errs {
			if strconv.Itoa(i) == m.Fleet {
				wantError(t, "Change of the one whose map is stored", err, nil)
			} else {
				wantError(t, "Change of another", err, ErrConflict)
			}
		}
	}
	if lost.Count() == 0 {
		t.Error("no reply was lost")
	}
}

// TestKills kills the server again and again while maps are changed. A change that was reported is
// there afterwards, and one that was not is the next one or is not there.
func TestKills(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	change(t, d, 0, sample(t, 1))
	var mu sync.Mutex
	reported, tried := int64(1), int64(1)
	ctx, stop := context.WithCancel(t.Context())
	changed := make(chan int64, 1000)
	var changing sync.WaitGroup
	changing.Go(func() {
		for epoch := int64(1); ctx.Err() == nil; epoch++ {
			mu.Lock()
			tried = epoch + 1
			mu.Unlock()
			if err := d.Change(ctx, epoch, sample(t, epoch+1)); err != nil {
				if ctx.Err() == nil {
					t.Errorf("Change(%d) = %v", epoch, err)
				}
				return
			}
			mu.Lock()
			reported = epoch + 1
			mu.Unlock()
			select {
			case changed <- epoch + 1:
			default:
			}
		}
	})
	defer changing.Wait()
	defer stop()
	for range 5 {
		for range 10 {
			<-changed
		}
		mu.Lock()
		least := reported
		mu.Unlock()
		server.Kill()
		server.Restart()
		redistest.Eventually(t, "the map is confirmed again", func() bool {
			m, err := d.Confirm(t.Context(), 0)
			if err != nil {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if m.Epoch < least || m.Epoch > tried {
				t.Errorf("after a kill the map has epoch %d, want %d to %d", m.Epoch, least, tried)
			}
			return true
		})
		for len(changed) > 0 {
			<-changed
		}
	}
}

// TestServerThatTakesNoWrites: a replica, and a server that refuses writes, confirm nothing, and
// can be read. It is the first command of a Present read that brings this about.
func TestServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  string
		spoil []string
	}{
		"a replica":                    {"READONLY", []string{"REPLICAOF", "127.0.0.1", "1"}},
		"a server that lacks replicas": {"NOREPLICAS", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, server := start(t)
			change(t, d, 0, sample(t, 1))
			must(t, server.Client(t), c.spoil...)
			for _, epoch := range []int64{0, 1, 2} {
				if m, err := d.Confirm(t.Context(), epoch); !retry.Code(err, c.code) {
					t.Errorf("Confirm(%d) = %v, %v, want %s", epoch, m, err, c.code)
				}
			}
			m, err := d.Load(t.Context())
			wantMap(t, "Load", m, err, sample(t, 1))
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			wantError(t, "Change", d.Change(ctx, 1, sample(t, 2)), context.DeadlineExceeded)
			if _, err := d.Store.Hold(t.Context(), "n", "a", time.Minute); !retry.Code(err, c.code) {
				t.Errorf("Hold = %v, want %s", err, c.code)
			}
			if events, err := d.Events(t.Context()); err != nil || len(events) != 0 {
				t.Errorf("Events = %v, %v, want none", events, err)
			}
		})
	}
}

// TestProtections takes each check out of the scripts, and expects that something goes wrong.
func TestProtections(t *testing.T) {
	t.Parallel()
	put := func(d *Directory, revision, text string) (bool, error) {
		return d.Store.Put(t.Context(), revision, Text{"a", text}, Text{"b", "of " + text})
	}
	hold := func(d *Directory, holder string, ttl time.Duration, want string) error {
		if got, err := d.Store.Hold(t.Context(), "n", holder, ttl); err != nil || got != want {
			return fmt.Errorf("Hold(%q, %v) = %q, %w, want %q", holder, ttl, got, err, want)
		}
		return nil
	}
	for _, p := range []struct {
		name, old, replacement string
		play                   func(d *Directory, server *redistest.Server) error
	}{
		{"a put compares the revision", "string.sub(stored or '', 1, 12) ~= ARGV[1]", "false", func(d *Directory, _ *redistest.Server) error {
			_, err := put(d, "", "one")
			if done, failed := put(d, "", "two"); done || err != nil || failed != nil {
				return fmt.Errorf("a put over another one = %t, %w", done, errors.Join(err, failed))
			}
			return nil
		}},
		{"a repeat is known", "string.sub(stored, 14) == ARGV[4]", "false", func(d *Directory, _ *redistest.Server) error {
			_, err := put(d, "", "one")
			if done, failed := put(d, "", "one"); !done || err != nil || failed != nil {
				return fmt.Errorf("a repeat = %t, %w", done, errors.Join(err, failed))
			}
			return nil
		}},
		{"a name has one holder", "holder ~= '' and holder ~= ARGV[1]", "false", func(d *Directory, _ *redistest.Server) error {
			return errors.Join(hold(d, "a", time.Minute, "a"), hold(d, "b", time.Minute, "a"))
		}},
		{"to ask changes nothing", "ARGV[1] == '' or ", "", func(d *Directory, server *redistest.Server) error {
			err := hold(d, "", time.Minute, "")
			if n := integer(t, server.Client(t), "EXISTS", holdKey+"n"); n != 0 {
				return errors.Join(err, errors.New("a question has stored a holder"))
			}
			return err
		}},
		{"a name is given up", "ARGV[2] == '0'", "false", func(d *Directory, _ *redistest.Server) error {
			return errors.Join(hold(d, "a", time.Minute, "a"), hold(d, "a", 0, ""), hold(d, "b", time.Minute, "b"))
		}},
		{"a clock that was ahead holds nothing", "or left > tonumber(life)", "", func(d *Directory, server *redistest.Server) error {
			err := hold(d, "a", time.Second, "a")
			must(t, server.Client(t), "PEXPIRE", holdKey+"n", "3600000")
			return errors.Join(err, hold(d, "b", time.Second, "b"))
		}},
		{"nothing holds for ever", "left < 0 or", "", func(d *Directory, server *redistest.Server) error {
			err := hold(d, "a", time.Minute, "a")
			must(t, server.Client(t), "PERSIST", holdKey+"n")
			return errors.Join(err, hold(d, "b", time.Minute, "b"))
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			d, server := start(t)
			if err := p.play(d, server); err != nil {
				t.Error(err)
			}
			d, server = start(t)
			d.Store.(*Redis).run.Scripts = scripttest.Without(t, library, p.old, p.replacement)
			if err := p.play(d, server); err == nil {
				t.Error("nothing goes wrong without the protection")
			}
		})
	}
}

// TestSilentServer: no call takes longer than its context, a connection that the client gives up
// is no end of the caller's context, and a change goes on when the server does.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	change(t, d, 0, sample(t, 1))
	server.Pause()
	defer server.Resume()
	for name, call := range map[string]func(ctx context.Context) error{
		"Confirm": func(ctx context.Context) error { _, err := d.Confirm(ctx, 1); return err },
		"Load":    func(ctx context.Context) error { _, err := d.Load(ctx); return err },
		"Change":  func(ctx context.Context) error { return d.Change(ctx, 1, sample(t, 2)) },
		"Note":    func(ctx context.Context) error { return d.Note(ctx, Event{What: "x"}) },
		"Lead":    func(ctx context.Context) error { _, err := d.Lead(ctx, "a", time.Second); return err },
	} {
		const prompt = 50 * time.Millisecond
		best := time.Hour
		for try := 0; try < 20 && best > prompt; try++ { // on a busy machine the next moment may be late
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var cancelled time.Time
			timer := time.AfterFunc(120*time.Millisecond, func() {
				cancelled = time.Now()
				cancel()
			})
			switch err := call(ctx); {
			case err == nil:
				t.Errorf("%s of a silent server succeeds", name)
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
	hasty := dial(t, server.Addr(), func(option *rueidis.ClientOption) { option.Dialer.Timeout = 50 * time.Millisecond })
	_, err := hasty.Confirm(t.Context(), 1)
	wantError(t, "Confirm", err, ErrSilent)
	changed := make(chan error, 1)
	go func() { changed <- hasty.Change(t.Context(), 1, sample(t, 3)) }()
	_, err = hasty.Confirm(t.Context(), 1)
	wantError(t, "Confirm", err, ErrSilent)
	server.Resume()
	// The change to epoch 2, which was cancelled, may have been made.
	if err := <-changed; err != nil && !errors.Is(err, ErrConflict) {
		t.Errorf("Change = %v", err)
	}
}

// TestOldFile restarts the directory with a file from before a change. It then answers with the
// map in that file: the older one, with its lower epoch. The next change takes a higher epoch than any.
func TestOldFile(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	change(t, d, 0, sample(t, 1))
	c := server.Client(t)
	old, err := c.Do(t.Context(), c.B().Dump().Key(baseKey).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	change(t, d, 1, sample(t, 2))
	must(t, c, "RESTORE", baseKey, "0", old, "REPLACE")
	m, err := d.Confirm(t.Context(), 2)
	wantMap(t, "Confirm of a map that was lost", m, err, sample(t, 1))
	m, err = d.Load(t.Context())
	wantMap(t, "Load", m, err, sample(t, 1))
	wantError(t, "Change of the map that was lost", d.Change(t.Context(), 2, sample(t, 3)), ErrConflict)
	change(t, d, 1, sample(t, 3))
	m, err = d.Confirm(t.Context(), 2)
	wantMap(t, "Confirm after the repair", m, err, sample(t, 3))
}

// TestFormerLayout: a directory of an older Millrace is refused, and stays as it is.
func TestFormerLayout(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	text, err := sample(t, 7).Pack()
	if err != nil {
		t.Fatal(err)
	}
	c := server.Client(t)
	must(t, c, "HSET", baseKey, "version", "1", "epoch", "7", "map", text)
	before := scripttest.Dump(t, c, "*")
	for _, epoch := range []int64{0, 7} {
		_, err := d.Confirm(t.Context(), epoch)
		wantError(t, "Confirm", err, ErrVersion)
		wantError(t, "Change", d.Change(t.Context(), epoch, sample(t, 8)), ErrVersion)
	}
	_, err = d.Load(t.Context())
	wantError(t, "Load", err, ErrVersion)
	if after := scripttest.Dump(t, c, "*"); after[baseKey] != before[baseKey] || len(after) != 1 {
		t.Error("the former directory has changed")
	}
}

// TestDial: the server may come later, but one must be named, and no more.
func TestDial(t *testing.T) {
	t.Parallel()
	for _, option := range []rueidis.ClientOption{
		{}, {InitAddress: []string{"a:1", "b:1"}}, {InitAddress: []string{"a:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}},
	} {
		_, err := Dial(option)
		wantError(t, fmt.Sprintf("Dial of %v", option.InitAddress), err, millrace.ErrBadArgument)
	}
	server := redistest.Durable(t)
	server.Kill()
	d := dial(t, server.Addr())
	if _, err := d.Load(t.Context()); err == nil {
		t.Error("Load from a server that is not there succeeds")
	}
	server.Restart()
	change(t, d, 0, sample(t, 1))
}

// TestUnreadable: an error names the value that is something else.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	store := func(name, text string) { must(t, server.Client(t), "HSET", baseKey, name, "xxxxxxxxxxxx "+text) }
	store("snapshots", "x")
	if _, err := d.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), "snapshots") {
		t.Errorf("Snapshots = %v, want an error that names them", err)
	}
	if err := d.Snapped(t.Context(), time.Now(), Snapshot{Saved: Saved{Addr: "a"}}); err == nil {
		t.Error("Snapped over a broken value succeeds")
	}
	store("log", "[x")
	if _, err := d.Events(t.Context()); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("Events = %v, want an error that names the log", err)
	}
	for _, broken := range []struct {
		epoch, text string
		want        error
	}{{"x", "{}", ErrVersion}, {"v3 1 sum 1", "{}", ErrVersion}, {"v2 x sum 1", "{}", ErrMap}, {"v2 1 sum x", "{}", ErrMap}, {"v2 1 sum -1", "{}", ErrMap}, {"v2 1 sum 1", "", ErrMap}, {"v2 1 sum 1", "{}", nil}} {
		store("epoch", broken.epoch)
		store("map", broken.text)
		for _, epoch := range []int64{0, 2} {
			m, err := d.Confirm(t.Context(), epoch)
			if err == nil || m != nil || broken.want != nil && !errors.Is(err, broken.want) {
				t.Errorf("Confirm(%d) of a map %q with the epoch %q = %+v, %v, want %v", epoch, broken.text, broken.epoch, m, err, broken.want)
			}
		}
	}
}

// TestExamine breaks the rules of a durable server, one after the other.
func TestExamine(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	codes := func() (list []string) {
		for _, r := range d.Examine(t.Context()) {
			list = append(list, r.Severity.String()+" "+r.Code)
			if (r.Advice == "") != (r.Severity == finding.OK) || r.Text == "" || r.Server == "" {
				t.Errorf("remark %+v, want a sentence about a server, and what to do unless all is well", r)
			}
		}
		return list
	}
	set := func(name, value string) func() {
		return func() { must(t, server.Client(t), "CONFIG", "SET", name, value) }
	}
	for _, c := range []struct {
		name          string
		breaks, mends func()
		want          string
	}{
		{"nothing", func() {}, func() {}, "ok durable"},
		{"no append-only file", set("appendonly", "no"), set("appendonly", "yes"), "critical no_aof"},
		{"fsync each second", set("appendfsync", "everysec"), set("appendfsync", "always"), "critical no_fsync"},
		{"no fsync", set("appendfsync", "no"), set("appendfsync", "always"), "critical no_fsync"},
		{"no fsync during a rewrite", set("no-appendfsync-on-rewrite", "yes"), set("no-appendfsync-on-rewrite", "no"), "critical no_fsync_on_rewrite"},
		{"eviction", set("maxmemory-policy", "allkeys-lru"), set("maxmemory-policy", "noeviction"), "critical evicts"},
		{"eviction of what expires", set("maxmemory-policy", "volatile-ttl"), set("maxmemory-policy", "noeviction"), "critical evicts"},
		{"little memory", set("maxmemory", "10mb"), set("maxmemory", "0"), "critical full"},
		{"a replica", func() { must(t, server.Client(t), "REPLICAOF", "127.0.0.1", "1") }, func() { must(t, server.Client(t), "REPLICAOF", "NO", "ONE") }, "critical no_master"},
	} {
		c.breaks()
		if got := codes(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: the examination finds %q, want %q", c.name, got, c.want)
		}
		err := d.Verify(t.Context())
		if fit := strings.HasPrefix(c.want, "ok"); fit != (err == nil) || !fit && (!errors.Is(err, ErrUnfit) || millrace.Hint(err) == "" || !strings.Contains(err.Error(), server.Addr())) {
			t.Errorf("%s: Verify = %v, hint %q", c.name, err, millrace.Hint(err))
		}
		c.mends()
	}
	replica := redistest.Start(t, redistest.Options{TCP: true})
	host, port, _ := strings.Cut(server.Addr(), ":")
	must(t, replica.Client(t), "REPLICAOF", host, port)
	redistest.Eventually(t, "a replica is found", func() bool { return slices.Equal(codes(), []string{"warning replicas"}) })
	if err := d.Verify(t.Context()); err != nil {
		t.Errorf("Verify with a replica = %v", err)
	}
	must(t, server.Client(t), "ACL", "SETUSER", "default", "-config")
	if got := codes(); !slices.Equal(got, []string{"note refused"}) {
		t.Errorf("without permission the examination finds %q, want note refused", got)
	}
	wantError(t, "Verify without permission", d.Verify(t.Context()), ErrUnfit)
	server.Kill()
	if got := codes(); !slices.Equal(got, []string{"critical silent"}) {
		t.Errorf("of a dead server the examination finds %q, want fail silent", got)
	}
}
