package directory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// TestLife follows a map from its beginning through a change.
func TestLife(t *testing.T) {
	t.Parallel()
	d, _ := start(t)
	ctx := t.Context()
	for _, epoch := range []int64{0, 1} {
		_, err := d.Confirm(ctx, epoch)
		wantError(t, "Confirm without a fleet", err, ErrNoFleet)
	}
	_, err := d.Load(ctx)
	wantError(t, "Load without a fleet", err, ErrNoFleet)

	first, second := sample(t, 1), sample(t, 5)
	second.Partitions[0].ReadOnly = true
	change(t, d, 0, first)
	m, err := d.Confirm(ctx, 0)
	wantMap(t, "Confirm by who has none", m, err, first)
	wantConfirmed(t, d, 1)
	m, err = d.Load(ctx)
	wantMap(t, "Load", m, err, first)

	change(t, d, 1, second)
	m, err = d.Confirm(ctx, 1)
	wantMap(t, "Confirm of what was replaced", m, err, second)
	wantConfirmed(t, d, 5)
	m, err = d.Load(ctx)
	wantMap(t, "Load after the change", m, err, second)
}

// TestConflict: who is not up to date is told so at once, and changes nothing.
func TestConflict(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	d := dial(t, proxy.Addr())
	present := sample(t, 3)
	change(t, d, 0, present)
	tries := 0
	proxy.DropReplyWhen(func(cmd []string) bool {
		if isChange(cmd) {
			tries++
		}
		return false
	})
	for _, c := range []struct{ epoch, next int64 }{{0, 1}, {0, 4}, {2, 3}, {2, 4}, {4, 5}} {
		other := sample(t, c.next)
		other.Fleet = "other"
		wantError(t, fmt.Sprintf("Change(%d) to %d", c.epoch, c.next), d.Change(t.Context(), c.epoch, other), ErrConflict)
	}
	proxy.Heal()
	if tries != 5 {
		t.Errorf("five changes were tried %d times", tries)
	}
	for _, c := range []struct{ epoch, next int64 }{{3, 3}, {3, 2}, {3, -1}, {0, 0}} {
		wantError(t, fmt.Sprintf("Change(%d) to %d", c.epoch, c.next), d.Change(t.Context(), c.epoch, sample(t, c.next)), ErrMap)
	}
	m, err := d.Load(t.Context())
	wantMap(t, "Load after the conflicts", m, err, present)
}

// TestLostReply loses the reply of a change that was made: it is repeated, succeeds
// and is stored once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	d := dial(t, proxy.Addr())
	change(t, d, 0, sample(t, 1))
	lost := proxy.DropReply(isChange)
	next := sample(t, 2)
	next.Settings.MaxFill = 50
	change(t, d, 1, next)
	if lost.Count() != 1 {
		t.Errorf("%d replies were lost, want 1", lost.Count())
	}
	if got, want := server.Info("commandstats")["cmdstat_hset"], "calls=2,"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("HSET of two changes: %s", got)
	}
	m, err := d.Confirm(t.Context(), 1)
	wantMap(t, "Confirm", m, err, next)
	// Whoever asks again, with the same map, is told that it is stored.
	change(t, d, 1, next)
	// The connection of a confirmation may be lost, too. Who asks next has a new one.
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
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	random := rand.New(rand.NewPCG(1, 2))
	changers := make([]*Redis, 4)
	for i := range changers {
		changers[i] = dial(t, proxy.Addr())
	}
	lost := proxy.DropReplyWhen(func(cmd []string) bool { return isChange(cmd) && random.IntN(8) == 0 })
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
		m, err := dial(t, server.Addr()).Load(t.Context())
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

// TestHints: who cannot reach what is remembered, each voice once, until its time.
func TestHints(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	tell := func(addr, reporter string) {
		t.Helper()
		if err := d.Hint(t.Context(), Hint{addr, reporter}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...Hint) {
		t.Helper()
		got, err := d.Hints(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := map[Hint]int{}
		for _, hint := range got {
			told[hint]++
		}
		for _, hint := range want {
			told[hint]--
		}
		for hint, n := range told {
			if n != 0 {
				t.Errorf("Hints = %v, want %v", got, want)
				return
			}
			delete(told, hint)
		}
	}
	// pass lets a hint's time have come.
	pass := func(addr, reporter string) {
		t.Helper()
		text, err := json.Marshal(Hint{addr, reporter})
		if err != nil {
			t.Fatal(err)
		}
		back := strconv.FormatInt(-HintLife.Milliseconds(), 10)
		must(t, client, "ZINCRBY", baseKey+":hints", back, string(text))
	}
	want()
	tell("a:1", "x")
	tell("a:1", "y")
	tell("/run/with a space", "x y")
	tell("a:1", "x") // once more
	want(Hint{"a:1", "x"}, Hint{"a:1", "y"}, Hint{"/run/with a space", "x y"})

	pass("a:1", "x")
	want(Hint{"a:1", "y"}, Hint{"/run/with a space", "x y"})
	tell("a:1", "y") // and is remembered longer, while the other is forgotten
	if n := integer(t, client, "ZCARD", baseKey+":hints"); n != 2 {
		t.Errorf("%d hints are stored, want 2", n)
	}
	tell("a:1", "x")
	want(Hint{"a:1", "x"}, Hint{"a:1", "y"}, Hint{"/run/with a space", "x y"})
	for _, hint := range []Hint{{"a:1", "x"}, {"a:1", "y"}, {"/run/with a space", "x y"}} {
		pass(hint.Addr, hint.Reporter)
	}
	want()
}

// TestHintLife: a hint is due when its life is over, as the server counts.
func TestHintLife(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	now := func() int64 {
		t.Helper()
		reply, err := do(t, client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		return reply[0]*1000 + reply[1]/1000
	}
	before := now()
	if err := d.Hint(t.Context(), Hint{"a:1", "x"}); err != nil {
		t.Fatal(err)
	}
	after := now()
	due, err := do(t, client, "ZSCORE", baseKey+":hints", `{"addr":"a:1","reporter":"x"}`).AsFloat64()
	if life := HintLife.Milliseconds(); err != nil || int64(due) < before+life || int64(due) > after+life {
		t.Errorf("the hint is due at %.0f, %v, want %d after it was told, at %d to %d", due, err, life, before, after)
	}
}

// TestHintsAreBounded tells one hint more than are kept: the one that is due first
// goes.
func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	const most = 10_000
	const fill = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 1e15 + i, '{\"addr\":\"' .. i .. '\"}') end"
	must(t, client, "EVAL", fill, "1", baseKey+":hints", strconv.Itoa(most))
	// All of those are due later than any new one.
	if err := d.Hint(t.Context(), Hint{"soon", "x"}); err != nil {
		t.Fatal(err)
	}
	hints, err := d.Hints(t.Context())
	if err != nil || len(hints) != most || hints[0] != (Hint{Addr: "1"}) || hints[most-1] != (Hint{Addr: strconv.Itoa(most)}) {
		t.Errorf("Hints = %d of them, %v, want those that are due last", len(hints), err)
	}
	must(t, client, "ZREMRANGEBYRANK", baseKey+":hints", "0", "0")
	if err := d.Hint(t.Context(), Hint{"soon", "x"}); err != nil {
		t.Fatal(err)
	}
	if hints, err := d.Hints(t.Context()); err != nil || len(hints) != most || hints[0] != (Hint{"soon", "x"}) {
		t.Errorf("Hints = %d of them, %v, want the new one among them", len(hints), err)
	}
}

// TestAnyHint: names of servers and reporters come back as they were told.
func TestAnyHint(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	rapid.Check(t, func(r *rapid.T) {
		want := Hint{rapid.String().Draw(r, "addr"), rapid.String().Draw(r, "reporter")}
		if err := d.Hint(t.Context(), want); err != nil {
			r.Fatal(err)
		}
		got, err := d.Hints(t.Context())
		if diff := cmp.Diff([]Hint{want}, got); err != nil || diff != "" {
			r.Fatalf("Hints: %v (-want +got):\n%s", err, diff)
		}
		must(t, client, "DEL", baseKey+":hints")
	})
}

// TestForeign: what is stored and is no map of this version is refused, and says
// why.
func TestForeign(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	valid, err := json.Marshal(sample(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		store []string
		want  error
	}{
		{"text that is no map", []string{"epoch", "4", "map", "?"}, ErrMap},
		{"an epoch without a map", []string{"epoch", "4"}, ErrMap},
		{"an epoch that is not the map's", []string{"epoch", "5", "map", string(valid)}, ErrMap},
		{"a newer map", []string{"epoch", "4", "map", `{"version":2}`}, ErrVersion},
	} {
		must(t, client, "DEL", baseKey)
		must(t, client, append([]string{"HSET", baseKey}, c.store...)...)
		_, err := d.Load(t.Context())
		wantError(t, c.what+": Load", err, c.want)
		_, err = d.Confirm(t.Context(), 0)
		wantError(t, c.what+": Confirm", err, c.want)
	}
	must(t, client, "DEL", baseKey)
	must(t, client, "SET", baseKey, "?")
	if _, err := d.Load(t.Context()); err == nil {
		t.Error("Load from a key of another kind succeeds")
	}
	if _, err := d.Confirm(t.Context(), 0); err == nil {
		t.Error("Confirm from a key of another kind succeeds")
	}
	if err := d.Change(t.Context(), 0, sample(t, 1)); err == nil {
		t.Error("Change over a key of another kind succeeds")
	}
}

// TestFull: a directory without memory still confirms and takes hints, which are
// bounded, and says what it refuses.
func TestFull(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := server.Client(t)
	change(t, d, 0, sample(t, 1))
	must(t, client, "CONFIG", "SET", "maxmemory", "1")
	wantConfirmed(t, d, 1)
	began := time.Now()
	wantError(t, "Change", d.Change(t.Context(), 1, sample(t, 2)), millrace.ErrFull)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Change was refused after %v", took)
	}
	wantError(t, "Hint", d.Hint(t.Context(), Hint{"a:1", "x"}), nil)
	wantConfirmed(t, d, 1)
	must(t, client, "CONFIG", "SET", "maxmemory", "0")
	change(t, d, 1, sample(t, 2))
}
