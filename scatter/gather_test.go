package scatter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// at returns the entry that a server keeps of a body that was written so many
// milliseconds into the epoch of Unix.
func at(ms int64, body string) string { return fmt.Sprint(ms, " ", body) }

// bodies returns the entries of a result as the tests write them.
func bodies(entries []Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Server+" "+at(e.At.UnixMilli(), string(e.Body)))
	}
	return all
}

// steadyConfig is a group's configuration for tests that do not wait for a timeout.
var steadyConfig = Config{Timeout: 20 * time.Second}

// calls counts how often a server ran a command.
func calls(server *redistest.Server, command string) string {
	count, _, _ := strings.Cut(server.Info("commandstats")["cmdstat_"+command], ",")
	return count
}

func wantMissing(t *testing.T, err error, names ...string) {
	t.Helper()
	wantError(t, err, millrace.ErrPartial)
	if want := fmt.Sprintf("%d of ", len(names)); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %v, want it to begin with %q", err, want)
	}
	if want := "(" + strings.Join(names, ", ") + ")"; !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want the servers %s", err, want)
	}
	failed, _ := errors.AsType[causes](err)
	if len(failed) != len(names) {
		t.Errorf("%d errors of %d missing servers", len(failed), len(names))
	}
}

func TestGather(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, steadyConfig)
	a, b, c := servers[0].Client(t), servers[1].Client(t), servers[2].Client(t)
	must(t, a, "INCRBY", "events", "5")
	must(t, c, "INCRBY", "events", "-2")
	must(t, a, "INCRBYFLOAT", "seconds", "0.5")
	must(t, b, "INCRBYFLOAT", "seconds", "0.25")
	must(t, a, "LPUSH", "last", at(1, "a1"), at(4, "a4"))
	must(t, b, "LPUSH", "last", at(2, "b2"), at(3, "b3"))
	must(t, a, "SADD", "users", "x", "y")
	must(t, c, "SADD", "users", "z", "y")
	must(t, a, "ZADD", "top", "1", "x", "5", "y")
	must(t, b, "ZADD", "top", "3", "x", "-inf", "z")
	must(t, b, "INCRBY", "events:60", "10")

	g := sc.Gather()
	events, over := g.Int("events"), g.Int("events", "events:60", "events:120")
	seconds := g.Float("seconds")
	last, users := g.List("last", 3), g.Set("users")
	sum, best, least, two := g.Scores("top", Sum, 0), g.Scores("top", Max, 0), g.Scores("top", Min, 0), g.Scores("top", Sum, 2)
	none, nothing, nobody, noOne := g.Int("no"), g.List("no", 10), g.Set("no"), g.Scores("no", Sum, 0)
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := events.Value, int64(3); got != want {
		t.Errorf("Int = %d, want %d", got, want)
	}
	if got, want := over.Value, int64(13); got != want {
		t.Errorf("Int = %d, want %d", got, want)
	}
	if got, want := seconds.Value, 0.75; got != want {
		t.Errorf("Float = %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{"s0 4 a4", "s1 3 b3", "s1 2 b2"}, bodies(last.Value)); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, users.Value); diff != "" {
		t.Errorf("Set (-want +got):\n%s", diff)
	}
	for name, one := range map[string]struct{ got, want []Scored }{
		"Sum":      {sum.Value, []Scored{{"y", 5}, {"x", 4}, sum.Value[2]}},
		"Max":      {best.Value, []Scored{{"y", 5}, {"x", 3}, sum.Value[2]}},
		"Min":      {least.Value, []Scored{{"y", 5}, {"x", 1}, sum.Value[2]}},
		"Sum of 2": {two.Value, []Scored{{"y", 5}, {"x", 4}}},
	} {
		if diff := cmp.Diff(one.want, one.got); diff != "" {
			t.Errorf("Scores, %s (-want +got):\n%s", name, diff)
		}
	}
	if got, want := fmt.Sprint(sum.Value[2]), "{z -Inf}"; got != want {
		t.Errorf("last score = %s, want %s", got, want)
	}
	if none.Value != 0 || len(nothing.Value)+len(nobody.Value)+len(noOne.Value) != 0 {
		t.Errorf("what is not there = %v, %v, %v, %v, want nothing", none.Value, nothing.Value, nobody.Value, noOne.Value)
	}
	if events.Servers != 3 || events.Answered != 3 || events.Missing != nil || events.Err != nil {
		t.Errorf("result = %+v, want 3 of 3 servers", events)
	}

	must(t, b, "INCRBY", "events", "1")
	if err := g.Read(t.Context()); err != nil || events.Value != 4 {
		t.Errorf("read again: %d, %v, want 4", events.Value, err)
	}
}

// TestOneCallEach counts the calls to servers, whatever is read.
func TestOneCallEach(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc := newScatter(t, servers, steadyConfig)
	g := sc.Gather()
	for i := range 100 {
		g.Int(fmt.Sprint("n", i))
		g.Set(fmt.Sprint("set", i))
	}
	for i := range 3 {
		if err := g.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, one := range servers {
			got := calls(one, "evalsha_ro") + calls(one, "evalsha") // the latter before Redis 7.0
			if want := fmt.Sprint("calls=", i+1); got != want {
				t.Errorf("after read %d: scripts: %s, want %s", i+1, got, want)
			}
		}
	}
}

func TestNothingToRead(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, steadyConfig)
	servers[0].Kill()
	if err := sc.Gather().Read(t.Context()); err != nil {
		t.Errorf("reading nothing: %v", err)
	}
}

// TestDeadServer: a gather names the server that is dead, and has what the others answered.
func TestDeadServer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, Config{Timeout: 200 * time.Millisecond})
	for _, one := range servers {
		must(t, one.Client(t), "SET", "n", "10")
	}
	g := sc.Gather()
	n, type_ := g.Int("n"), g.Set("n")

	servers[1].Kill()
	err := g.Read(t.Context())
	wantMissing(t, err, "s1")
	wantError(t, err, ErrType)
	wantMissing(t, n.Err, "s1")
	wantMissing(t, type_.Err, "s1")
	wantError(t, type_.Err, ErrType)
	if n.Value != 20 || n.Servers != 3 || n.Answered != 2 || !cmp.Equal(n.Missing, []string{"s1"}) {
		t.Errorf("result = %+v, want 20 of 2 of 3 servers", n)
	}
	if got, want := millrace.Code(n.Err), "partial"; got != want || millrace.Hint(n.Err) == "" {
		t.Errorf("code = %q, hint %q, want %q and some hint", got, millrace.Hint(n.Err), want)
	}

	servers[0].Kill()
	servers[2].Kill()
	wantMissing(t, g.Read(t.Context()), "s0", "s1", "s2")
	if n.Value != 0 || n.Answered != 0 {
		t.Errorf("result = %+v, want 0 of no server", n)
	}

	for _, one := range servers {
		one.Restart()
		must(t, one.Client(t), "SET", "n", "1")
	}
	redistest.Eventually(t, "all servers answer again", func() bool { return !errors.Is(g.Read(t.Context()), millrace.ErrPartial) })
	if n.Value != 3 || n.Answered != 3 || n.Missing != nil || n.Err != nil {
		t.Errorf("result = %+v, want 3 of 3 servers", n)
	}
}

// TestSlowServer: a gather goes on without a server that does not answer in time.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc, proxies := throughProxies(t, servers, Config{Timeout: 150 * time.Millisecond})
	for _, one := range servers {
		must(t, one.Client(t), "SET", "n", "10")
	}
	g := sc.Gather()
	n := g.Int("n")
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}

	proxies[2].HalfClose()
	began := time.Now()
	err := g.Read(t.Context())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the slow server kept the reader for %v", took)
	}
	wantMissing(t, err, "s2")
	wantError(t, err, context.DeadlineExceeded)
	if n.Value != 20 {
		t.Errorf("value = %d, want 20", n.Value)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = g.Read(ctx)
	wantMissing(t, err, "s0", "s1", "s2")
	wantError(t, err, context.Canceled)

	proxies[2].Heal()
	if err := g.Read(t.Context()); err != nil || n.Value != 30 {
		t.Errorf("after it is back: %d, %v, want 30", n.Value, err)
	}
}

// TestCancel: a cancelled caller does not wait for the timeout.
func TestCancel(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc, proxies := throughProxies(t, servers, Config{Timeout: time.Minute})
	g := sc.Gather()
	g.Int("n")
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxies[0].HalfClose()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	wantMissing(t, g.Read(ctx), "s0")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the reader was kept for %v after its deadline", took)
	}
}

// TestServersAreAskedAtTheSameTime: the wires are long, and the reader waits for one.
func TestServersAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	sc, proxies := throughProxies(t, startServers(t, 5), steadyConfig)
	g := sc.Gather()
	g.Int("n")
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	const delay = 300 * time.Millisecond
	for _, p := range proxies {
		p.Delay(delay)
	}
	began := time.Now()
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*delay {
		t.Errorf("five servers, each %v away, took %v", delay, took)
	}
}

// TestServersInTrouble: those that refuse writes are read, and lost replies and
// forgotten scripts are not noticed.
func TestServersInTrouble(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 4)
	sc, proxies := throughProxies(t, servers, steadyConfig)
	for _, one := range servers {
		must(t, one.Client(t), "SET", "n", "10")
	}
	g := sc.Gather()
	n := g.Int("n")
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}

	must(t, servers[0].Client(t), "REPLICAOF", "127.0.0.1", "1") // no server is there, and it takes no writes
	must(t, servers[1].Client(t), "CONFIG", "SET", "maxmemory", "1")
	must(t, servers[2].Client(t), "SCRIPT", "FLUSH")
	lost := proxies[3].DropReply(redistest.Script)
	if err := g.Read(t.Context()); err != nil || n.Value != 40 {
		t.Errorf("read = %d, %v, want 40", n.Value, err)
	}
	if lost.Count() != 1 {
		t.Errorf("%d replies were lost, want 1", lost.Count())
	}
}

func TestWrongType(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc := newScatter(t, servers, steadyConfig)
	b := servers[1].Client(t)
	must(t, servers[0].Client(t), "SET", "n", "1")
	must(t, b, "SET", "n", "2")
	must(t, b, "SET", "float", "1.5")
	must(t, b, "SET", "text", "many")
	must(t, b, "SET", "endless", "inf")
	must(t, b, "LPUSH", "plain", "no milliseconds")
	must(t, b, "LPUSH", "packed", "1 \x1f\x8bnonsense")
	must(t, b, "HSET", "hash", "f", "v")

	g := sc.Gather()
	fine := g.Int("n")
	bad := map[string]func() error{}
	wrong := func(what string, r any) {
		bad[what] = func() error {
			switch r := r.(type) {
			case *Result[int64]:
				return r.Err
			case *Result[float64]:
				return r.Err
			case *Result[[]Entry]:
				return r.Err
			case *Result[[]string]:
				return r.Err
			}
			return r.(*Result[[]Scored]).Err
		}
	}
	wrong("a float as an int", g.Int("float"))
	wrong("a list as an int", g.Int("plain"))
	wrong("one of several", g.Int("n", "text"))
	wrong("a text as a float", g.Float("text"))
	wrong("infinity as a float", g.Float("endless"))
	wrong("a number as a list", g.List("n", 1))
	wrong("something else than entries", g.List("plain", 1))
	wrong("what cannot be unpacked", g.List("packed", 1))
	wrong("a number as a set", g.Set("n"))
	wrong("a hash as a sorted set", g.Scores("hash", Sum, 0))

	err := g.Read(t.Context())
	wantError(t, err, ErrType)
	if errors.Is(err, millrace.ErrPartial) {
		t.Errorf("error = %v, but all servers answered", err)
	}
	if fine.Err != nil || fine.Value != 3 {
		t.Errorf("what is right = %d, %v, want 3", fine.Value, fine.Err)
	}
	for what, err := range bad {
		if got := err(); !errors.Is(got, ErrType) {
			t.Errorf("%s: %v, want ErrType", what, got)
		}
	}
}

// TestOverflow: sums that do not fit are errors, and have no value.
func TestOverflow(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc := newScatter(t, servers, steadyConfig)
	for _, one := range servers {
		must(t, one.Client(t), "SET", "most", "9223372036854775807")
		must(t, one.Client(t), "SET", "float", "1.7e308")
	}
	must(t, servers[0].Client(t), "ZADD", "z", "inf", "m")
	must(t, servers[1].Client(t), "ZADD", "z", "-inf", "m")
	g := sc.Gather()
	n, x, z := g.Int("most"), g.Float("float"), g.Scores("z", Sum, 0)
	wantError(t, g.Read(t.Context()), ErrOverflow)
	wantError(t, n.Err, ErrOverflow)
	wantError(t, x.Err, ErrOverflow)
	wantError(t, z.Err, ErrOverflow)
	if n.Value != 0 || x.Value != 0 || z.Value != nil {
		t.Errorf("values = %v, %v, %v, want none", n.Value, x.Value, z.Value)
	}
}

// TestBoundedMemory: a server sends no more than the limit, and a sum of replies above it is
// refused.
func TestBoundedMemory(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, Config{Timeout: steadyConfig.Timeout, MaxMembers: 10})
	fill := func(server int, key string, members int) {
		client := servers[server].Client(t)
		for i := range members {
			member := fmt.Sprint(server, "-", i)
			must(t, client, "SADD", "set "+key, member)
			must(t, client, "ZADD", "scores "+key, "1", member)
			must(t, client, "LPUSH", "list "+key, at(1, member))
		}
	}
	fill(0, "one", 11)
	fill(0, "all", 5)
	fill(1, "all", 6)
	fill(0, "fits", 3)
	fill(1, "fits", 3)
	fill(2, "fits", 4)

	for _, one := range []struct {
		key  string
		want error
	}{{"one", millrace.ErrTooLarge}, {"all", millrace.ErrTooLarge}, {"fits", nil}} {
		key, want := one.key, one.want
		g := sc.Gather()
		set, scores := g.Set("set "+key), g.Scores("scores "+key, Sum, 1)
		err := g.Read(t.Context())
		for name, got := range map[string]error{"Read": err, "Set": set.Err, "Scores": scores.Err} {
			if !errors.Is(got, want) {
				t.Errorf("%s of %q: %v, want %v", name, key, got, want)
			}
		}
		if want == nil && (len(set.Value) != 10 || len(scores.Value) != 1) {
			t.Errorf("%d members and %d scores, want 10 and 1", len(set.Value), len(scores.Value))
		}
		if key == "one" {
			for _, command := range []string{"sscan", "zscan"} {
				if got := calls(servers[0], command); got != "" {
					t.Errorf("%s %s on the server that has too many, want none", command, got)
				}
			}
		}
	}

	g := sc.Gather()
	cut, whole := g.List("list one", 10), g.List("list all", 6)
	wantError(t, g.Read(t.Context()), millrace.ErrTooLarge)
	if cut.Err != nil || len(cut.Value) != 10 {
		t.Errorf("list of one server: %d entries, %v, want 10", len(cut.Value), cut.Err)
	}
	wantError(t, whole.Err, millrace.ErrTooLarge)
}

// TestWhatCannotBeAskedFor is refused before any server is asked.
func TestWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{MaxMembers: 100})
	for name, one := range map[string]struct {
		ask  func(g *Gather)
		want error
	}{
		"no name":            {func(g *Gather) { g.Int("") }, millrace.ErrBadName},
		"a control":          {func(g *Gather) { g.Set("a\nb") }, millrace.ErrBadName},
		"a long name":        {func(g *Gather) { g.Set(strings.Repeat("k", maxName+1)) }, millrace.ErrBadName},
		"no entries":         {func(g *Gather) { g.List("l", 0) }, millrace.ErrBadArgument},
		"many entries":       {func(g *Gather) { g.List("l", 101) }, millrace.ErrBadArgument},
		"a negative limit":   {func(g *Gather) { g.Scores("z", Sum, -1) }, millrace.ErrBadArgument},
		"an unknown merging": {func(g *Gather) { g.Scores("z", 3, 0) }, millrace.ErrBadArgument},
		"many keys": {func(g *Gather) {
			for i := range maxKeys {
				g.Int(fmt.Sprint(i))
			}
		}, millrace.ErrBadArgument},
	} {
		g := sc.Gather()
		n := g.Int("n")
		one.ask(g)
		err := g.Read(t.Context())
		if !errors.Is(err, one.want) || !errors.Is(n.Err, one.want) {
			t.Errorf("%s: %v, and %v of another result; want %v", name, err, n.Err, one.want)
		}
	}
	if got := calls(servers[0], "evalsha"); got != "" {
		t.Errorf("evalsha %s, want none", got)
	}
}

func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc := newScatter(t, servers, steadyConfig)
	must(t, servers[1].Client(t), "HSET", sc.base+":meta", "version", "2")
	g := sc.Gather()
	g.Int("n")
	err := g.Read(t.Context())
	wantMissing(t, err, "s1")
	wantError(t, err, millrace.ErrVersion)
}
