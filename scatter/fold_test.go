package scatter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// foldPatience is for how long tests wait for a server that is there.
const foldPatience = 10 * time.Second

// group is a group of servers of a test that shares them with others: its keys begin
// with a prefix of its own.
type group struct {
	*testing.T
	*Scatter

	direct []rueidis.Client
	prefix string
}

// newGroup returns a group over servers, whose values begin with its name.
func newGroup(t *testing.T, list []Server, direct []rueidis.Client, hooks ...millrace.Hook) *group {
	t.Helper()
	name := redistest.Name(t)
	sc := scatterOver(t, list, Config{Group: name, Timeout: foldPatience, Hooks: hooks})
	return &group{T: t, Scatter: sc, direct: direct, prefix: name + ":"}
}

// again returns the same group as another process sees it.
func (g *group) again(hooks ...millrace.Hook) *Scatter {
	g.Helper()
	list := make([]Server, len(g.direct))
	for i, c := range g.direct {
		list[i] = Server{Name: fmt.Sprint("s", i), Client: c}
	}
	cfg := g.cfg
	cfg.Hooks = hooks
	sc := scatterOver(g.T, list, cfg)
	sc.moves = g.moves
	return sc
}

func (g *group) match() FoldConfig {
	return FoldConfig{Match: g.prefix + "*", Merge: func(key string) Merge {
		if strings.HasSuffix(key, "best") || strings.HasSuffix(key, "gauge") {
			return Max
		}
		return Sum
	}}
}

func clients(t *testing.T, servers []*redistest.Server) (list []Server, direct []rueidis.Client) {
	t.Helper()
	for i, one := range servers {
		direct = append(direct, one.Client(t))
		list = append(list, Server{Name: fmt.Sprint("s", i), Client: direct[i]})
	}
	return list, direct
}

// fill gives every server something of every kind, and the first one more than fits
// into a parcel.
func (g *group) fill(large int) {
	g.Helper()
	for i, c := range g.direct {
		cmds := [][]string{
			{"INCRBY", "int", fmt.Sprint(i + 1)},
			{"SET", "big", "3000000000000000001"},
			{"SET", "float", fmt.Sprintf("%d.25", i)},
			{"SET", "mixed", []string{"1", "1.5", "2"}[i%3]},
			{"SET", "gauge", fmt.Sprint(9007199254740993 - i)},
			{"ZADD", "best", fmt.Sprint(10 - i), "m", fmt.Sprint(i), fmt.Sprint("m", i)},
			{"SET", "expires", "5"}, {"PEXPIRE", "expires", fmt.Sprint(int64(1+i) * 3_600_000)},
		}
		if i == 0 {
			cmds[1][2] = "-3000000000000000001"
			cmds = append(cmds, []string{"SET", "only", "7"}, []string{"SET", "brief", "7", "PX", "3600000"})
		}
		size := 20
		if i == 0 {
			size = large
		}
		list, set, scores := []string{"RPUSH", "list"}, []string{"SADD", "set"}, []string{"ZADD", "scores"}
		for j := range size {
			list = append(list, fmt.Sprintf("%d of %d", 1_700_000_000_000-7*j-i, i))
			set = append(set, fmt.Sprint(j*(i+1)))
			scores = append(scores, fmt.Sprint(j, ".5"), fmt.Sprint("member ", j))
		}
		for _, cmd := range append(cmds, list, set, scores) {
			cmd[1] = g.prefix + cmd[1]
			must(g.T, c, cmd...)
		}
	}
}

// values is what a gather reads of a group that was filled.
type values struct {
	Int, Big, Only, Brief, Expires int64
	Float, Mixed, Gauge            float64
	List                           []Entry
	Set                            []string
	Scores, Best                   []Scored
}

func (g *group) read(sc *Scatter) (values, error) {
	r := sc.Gather()
	key := func(name string) string { return g.prefix + name }
	ints := []*Result[int64]{r.Int(key("int")), r.Int(key("big")), r.Int(key("only")), r.Int(key("brief")), r.Int(key("expires"))}
	float, mixed, gauge := r.Float(key("float")), r.Float(key("mixed")), r.Max(key("gauge"))
	list, set := r.List(key("list"), MaxCap), r.Set(key("set"))
	scores, best := r.Scores(key("scores"), Sum, 100_000), r.Scores(key("best"), Max, 100)
	err := r.Read(g.Context())
	for i := range list.Value {
		list.Value[i].Server = "" // which changes
	}
	return values{
		ints[0].Value, ints[1].Value, ints[2].Value, ints[3].Value, ints[4].Value,
		float.Value, mixed.Value, gauge.Value, list.Value, set.Value, scores.Value, best.Value,
	}, err
}

func (g *group) mustRead(sc *Scatter) values {
	g.Helper()
	v, err := g.read(sc)
	if err != nil {
		g.Fatal(err)
	}
	return v
}

// wantSame fails the test unless a gather reads what it read before.
func (g *group) wantSame(where string, sc *Scatter, want values) {
	g.Helper()
	if got := g.mustRead(sc); !reflect.DeepEqual(got, want) { // cmp.Diff takes a second to say that nothing has changed
		g.Fatalf("%s: what is read has changed (-before +after):\n%.2000s", where, cmp.Diff(want, got))
	}
}

// wantLeft fails the test unless the first server holds nothing more, and nothing of
// the fold is left anywhere.
func (g *group) wantLeft(where string) {
	g.Helper()
	if keys := words(g.T, g.direct[0], "KEYS", g.prefix+"*"); len(keys) > 0 {
		g.Errorf("%s: the server that has left holds %q", where, keys)
	}
	g.wantNoSides(where)
	if fold := text(g.T, g.direct[0], "HGET", metaKey(g.base), "fold"); fold != "" {
		g.Errorf("%s: the fold %s has not ended", where, fold)
	}
}

// wantNoSides fails the test unless no fold has left anything on any server.
func (g *group) wantNoSides(where string) {
	g.Helper()
	for i, c := range g.direct {
		for _, side := range []string{outKey(g.base), takenKey(g.base), parcelKey(g.base, "*"), appliedKey(g.base, "*")} {
			if keys := words(g.T, c, "KEYS", side); len(keys) > 0 {
				g.Errorf("%s: server %d keeps %q", where, i, keys)
			}
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	g := newGroup(t, list, direct)
	g.fill(2500)
	must(t, direct[0], "SET", "other:int", "1")
	before := g.mustRead(g.Scatter)
	if before.Int != 6 || before.Only != 7 || len(before.Set) < 2500 || len(before.List) != 2540 || before.Gauge != 9007199254740993 {
		t.Fatalf("a gather read %d, %d, %d members, %d entries, %v", before.Int, before.Only, len(before.Set), len(before.List), before.Gauge)
	}
	cfg, shown := g.match(), FoldReport{}
	cfg.Progress = func(r FoldReport) { shown = r }
	report, err := g.Fold(t.Context(), "s0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if report.Keys != 12 || report.Parcels != 18 || report.Passes != 2 || report.Elements != shown.Elements || len(report.Left) != 0 {
		t.Errorf("Fold = %+v, last shown %+v, want 12 keys in 18 parcels", report, shown)
	}
	g.wantSame("after a fold", g.Scatter, before)
	g.wantLeft("after a fold")
	if got := text(t, direct[0], "GET", "other:int"); got != "1" {
		t.Errorf("a key that does not match is %q", got)
	}
	if got := text(t, direct[0], "HGET", metaKey(g.base), "closed"); got != "1" {
		t.Errorf("closed = %q, want the server to stay closed", got)
	}
	for i := 1; i < 3; i++ {
		if ttl := integer(t, direct[i], "PTTL", g.prefix+"int"); ttl != -1 {
			t.Errorf("PTTL of what never expires = %d", ttl)
		}
		if ttl := integer(t, direct[i], "PTTL", g.prefix+"expires"); ttl < 3_600_000 {
			t.Errorf("PTTL of what expires in %d hours = %d ms", i+1, ttl)
		}
		if ttl := integer(t, direct[i], "PTTL", g.prefix+"brief"); ttl != -2 && (ttl < 3_500_000 || ttl > 3_600_000) {
			t.Errorf("PTTL of what came with an hour = %d ms", ttl)
		}
	}
	// A big number that no Lua number has.
	sum := int64(0)
	for _, c := range direct {
		sum = max(sum, integer(t, c, "GET", g.prefix+"gauge"))
	}
	if want := int64(9007199254740993); sum != want {
		t.Errorf("the largest gauge is %d, want %d", sum, want)
	}
	s := g.Session("k")
	s.Add(g.prefix+"int", 1)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := integer(t, direct[0], "EXISTS", g.prefix+"int"); n != 0 {
		t.Error("a session has written to a closed server")
	}
	must(t, direct[0], "INCRBY", g.prefix+"int", "5") // a plain writer that knows nothing
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Fatal(err)
	}
	before.Int += 6
	g.wantSame("after a second fold", g.Scatter, before)
	if err := g.Reopen(t.Context(), "s0"); err != nil {
		t.Fatal(err)
	}
	if n := integer(t, direct[0], "HEXISTS", metaKey(g.base), "closed"); n != 0 {
		t.Error("a server that was opened again is closed")
	}
	must(t, direct[0], "INCRBY", g.prefix+"int", "5")
	before.Int += 5
	g.wantSame("after Reopen", g.Scatter, before)
}

// killer ends a call before one of its script calls, by its number.
type killer struct {
	at   int64
	n    atomic.Int64
	kill context.CancelCauseFunc

	mu    sync.Mutex
	calls []string
}

var errKilled = errors.New("killed by the test")

func (k *killer) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	k.mu.Lock()
	k.calls = append(k.calls, call.Script)
	k.mu.Unlock()
	if k.n.Add(1) == k.at {
		k.kill(errKilled)
	}
	return ctx, nil
}

// killed reports whether a call was ended by a killer.
func killed(err error) bool { return errors.Is(err, errKilled) || errors.Is(err, context.Canceled) }

// soak is whether there is time for every combination.
var soak = os.Getenv("MILLRACE_SOAK") != ""

// TestKilledAnywhere kills folds before each of their script calls. Readers do not
// notice, and the same call again finishes it.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	for which, how := range []string{"Fold", "Reopen"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for n, done := int64(1), false; !done; n++ {
				if !soak && n > 5 && n%4 != int64(2*which) {
					continue
				}
				k := &killer{at: n}
				g := newGroup(t, list, direct, k)
				g.fill(1200)
				before := g.mustRead(g.again())
				ctx, kill := context.WithCancelCause(t.Context())
				k.kill = kill
				_, err := g.Fold(ctx, "s0", g.match())
				done = k.n.Load() < n
				where := fmt.Sprintf("%s, killed at call %d of %v", how, n, k.calls)
				if (err == nil) != done || err != nil && !killed(err) {
					t.Fatalf("%s: Fold = %v", where, err)
				}
				kill(nil)
				sc := g.again()
				if last := k.calls[len(k.calls)-1]; last != "scatter.part" { // where the numbers do not fit until it is called again
					g.wantSame(where, sc, before)
				}
				if how == "Reopen" {
					if err := sc.Reopen(t.Context(), "s0"); err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					g.wantSame(where+", and opened", sc, before)
				}
				if _, err := sc.Fold(t.Context(), "s0", g.match()); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				g.wantSame(where+", and finished", sc, before)
				g.wantLeft(where)
			}
		})
	}
}

// loadMoves makes the servers know the scripts, so that no call is answered with
// NOSCRIPT.
func loadMoves(t *testing.T, direct []rueidis.Client) {
	t.Helper()
	m := standardMoves
	for _, c := range direct {
		for _, source := range []string{
			m.close.Source(), m.join.Source(), m.take.Source(), m.put.Source(), m.done.Source(), m.finish.Source(),
			m.part.Source(), m.reopen.Source(), m.reset.Source(), m.epochs.Source(), m.date.Source(), flushScript.Source(),
		} {
			must(t, c, "SCRIPT", "LOAD", source)
		}
	}
}

// TestFoldLosesReplies loses replies of all calls that move something, after the server
// did the work.
func TestFoldLosesReplies(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	_, direct := clients(t, servers)
	loadMoves(t, direct)
	var list []Server
	var proxies []*redistest.Proxy
	for i, one := range servers {
		proxies = append(proxies, redistest.NewProxy(t, one.Addr()))
		list = append(list, Server{Name: fmt.Sprint("s", i), Client: proxies[i].Client(t)})
	}
	g := newGroup(t, list, direct)
	g.fill(1200)
	before := g.mustRead(g.again())
	// Each call is sent twice: the first answer is lost.
	var mu sync.Mutex
	seen := map[string]bool{}
	for i, p := range proxies {
		p.DropReplyWhen(func(cmd []string) bool {
			mu.Lock()
			defer mu.Unlock()
			text := fmt.Sprint(i, cmd)
			first := redistest.Named("EVALSHA")(cmd) && !seen[text]
			seen[text] = true
			return first
		})
	}
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Fatal(err)
	}
	dropped := proxies[0].Dropped() + proxies[1].Dropped() + proxies[2].Dropped()
	if dropped < 15 { // each with those of all calls that were under way
		t.Errorf("%d replies were lost, want that of each call", dropped)
	}
	g.wantSame("after a fold over a lossy network", g.again(), before)
	g.wantLeft("after a fold over a lossy network")
	if err := g.Reset(t.Context(), 1, g.prefix+"int", g.prefix+"set"); err != nil {
		t.Fatal(err)
	}
	r := g.again().Gather()
	now, ended := r.Int(g.prefix+"int"), r.Int(g.Ended(1, g.prefix+"int"))
	if err := r.Read(t.Context()); err != nil || now.Value != 0 || ended.Value != before.Int {
		t.Errorf("after a reset the counter is %d, and was %d, %v; want 0 and %d", now.Value, ended.Value, err, before.Int)
	}
	if err := g.Reopen(t.Context(), "s0"); err != nil {
		t.Error(err)
	}
}

// TestFoldAmongWriters folds one server after another, killed and called again, while
// sessions are flushed and gathers read. Every gather is exact.
func TestFoldAmongWriters(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 4))
	g := newGroup(t, list, direct)
	key := func(i int) string { return fmt.Sprintf("%scount%d", g.prefix, i) }
	const counters = 12
	var begun, done [counters]atomic.Int64
	writing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 3 {
		sc := g.again()
		sc.cfg.Shard = RoundRobin()
		wg.Go(func() {
			s := sc.Session("")
			for n := w; writing.Err() == nil; n++ {
				i := n % counters
				s.Add(key(i), 1)
				s.Insert(g.prefix+"members", fmt.Sprint(i, "-", n%50))
				begun[i].Add(1)
				if err := s.Flush(t.Context()); err != nil {
					t.Errorf("Flush = %v", err)
					return
				}
				done[i].Add(1)
			}
		})
	}
	var reads atomic.Int64
	for range 2 {
		sc := g.again()
		wg.Go(func() {
			for writing.Err() == nil {
				var least [counters]int64
				var sums [counters]*Result[int64]
				r := sc.Gather()
				for i := range counters {
					least[i], sums[i] = done[i].Load(), r.Int(key(i))
				}
				err := r.Read(t.Context())
				if errors.Is(err, ErrPartial) {
					continue // which is honest, and counted below
				}
				if err != nil {
					t.Errorf("Read = %v", err)
					return
				}
				reads.Add(1)
				for i, sum := range sums {
					if most := begun[i].Load(); sum.Value < least[i] || sum.Value > most {
						t.Errorf("counter %d = %d, and between %d and %d were added", i, sum.Value, least[i], most)
					}
				}
			}
		})
	}
	for _, leaving := range []string{"s0", "s2", "s0"} {
		for n := int64(3); ; n += 9 {
			k := &killer{at: n}
			ctx, kill := context.WithCancelCause(t.Context())
			k.kill = kill
			_, err := g.again(k).Fold(ctx, leaving, g.match())
			kill(nil)
			if err == nil {
				break
			}
			if !killed(err) {
				t.Fatalf("Fold of %s = %v", leaving, err)
			}
		}
		seen := reads.Load()
		redistest.Eventually(t, "readers go on", func() bool { return reads.Load() > seen+2 })
		if leaving == "s0" {
			if err := g.Reopen(t.Context(), leaving); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	wg.Wait()
	r := g.again().Gather()
	var sums [counters]*Result[int64]
	for i := range counters {
		sums[i] = r.Int(key(i))
	}
	if err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, sum := range sums {
		if want := done[i].Load(); sum.Value != want {
			t.Errorf("counter %d = %d, want the %d that were added", i, sum.Value, want)
		}
	}
	g.wantNoSides("in the end")
}

// TestTwoFoldsAtOnce: two operators fold the same server.
func TestTwoFoldsAtOnce(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	for range 5 {
		g := newGroup(t, list, direct)
		g.fill(2500)
		before := g.mustRead(g.Scatter)
		var wg sync.WaitGroup
		for range 2 {
			sc := g.again()
			wg.Go(func() {
				if _, err := sc.Fold(t.Context(), "s0", g.match()); err != nil && !errors.Is(err, ErrFold) {
					t.Errorf("Fold = %v", err)
				}
			})
		}
		wg.Wait()
		if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
			t.Fatal(err)
		}
		g.wantSame("after two folds at once", g.Scatter, before)
		g.wantLeft("after two folds at once")
	}
}

// TestFoldLeavesWhatItCannotMove: what is of another kind stays, and is named.
func TestFoldLeavesWhatItCannotMove(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 2))
	g := newGroup(t, list, direct)
	for key, cmd := range map[string][]string{
		"a-hash":     {"HSET", "", "f", "v"},
		"b-text":     {"SET", "", "text"},
		"c-entries":  {"RPUSH", "", "no time"},
		"d-type":     {"SADD", "", "m"},
		"e-overflow": {"SET", "", "9223372036854775807"},
		"f-fine":     {"SET", "", "1"},
		"g-infinite": {"ZADD", "", "inf", "m"},
	} {
		cmd[1] = g.prefix + key
		must(t, direct[0], cmd...)
	}
	must(t, direct[1], "SET", g.prefix+"d-type", "1")
	must(t, direct[1], "SET", g.prefix+"e-overflow", "1")
	must(t, direct[1], "ZADD", g.prefix+"g-infinite", "-inf", "m")
	report, err := g.Fold(t.Context(), "s0", g.match())
	wantError(t, err, ErrLeft)
	var left []string
	for _, one := range report.Left {
		left = append(left, strings.TrimPrefix(one.Key, g.prefix))
		want := ErrType
		if strings.HasSuffix(one.Key, "overflow") || strings.HasSuffix(one.Key, "infinite") {
			want = ErrOverflow
		}
		wantError(t, one.Err, want)
	}
	if want := []string{"a-hash", "b-text", "c-entries", "d-type", "e-overflow", "g-infinite"}; !slices.Equal(left, want) {
		t.Errorf("left = %q, want %q", left, want)
	}
	wantError(t, g.Reopen(t.Context(), "s0"), ErrLeft)
	for _, key := range []string{"d-type", "e-overflow", "g-infinite"} {
		must(t, direct[1], "DEL", g.prefix+key) // so that there is room for what comes
	}
	report, err = g.Fold(t.Context(), "s0", g.match())
	wantError(t, err, ErrLeft)
	if len(report.Left) != 3 {
		t.Errorf("left = %v, want the three that nothing can be done about", report.Left)
	}
	for _, key := range []string{"a-hash", "b-text", "c-entries"} {
		must(t, direct[0], "DEL", g.prefix+key)
	}
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Error(err)
	}
	g.wantLeft("after the rest has gone")
	if got := text(t, direct[1], "GET", g.prefix+"e-overflow"); got != "9223372036854775807" {
		t.Errorf("the counter is %s", got)
	}
}

// TestFoldOnFullServers: a full target has the fold fail, with nothing lost; a full
// server can be left.
func TestFoldOnFullServers(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 2))
	g := newGroup(t, list, direct)
	g.fill(1200)
	before := g.mustRead(g.Scatter)
	must(t, direct[0], "CONFIG", "SET", "maxmemory", "1")
	must(t, direct[1], "CONFIG", "SET", "maxmemory", "1")
	_, err := g.Fold(t.Context(), "s0", g.match())
	wantError(t, err, millrace.ErrFull)
	if !strings.Contains(fmt.Sprint(err), "server s1") {
		t.Errorf("error = %v, want it to name the server", err)
	}
	g.wantSame("with a full target", g.Scatter, before)
	must(t, direct[1], "CONFIG", "SET", "maxmemory", "0")
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Fatalf("Fold of a full server = %v", err)
	}
	must(t, direct[0], "CONFIG", "SET", "maxmemory", "0")
	g.wantSame("after the fold of a full server", g.Scatter, before)
	g.wantLeft("after the fold of a full server")
	must(t, direct[0], "CONFIG", "SET", "maxmemory", "1")
	if err := g.Reopen(t.Context(), "s0"); err != nil {
		t.Errorf("Reopen of a full server = %v", err)
	}
}

// TestFoldOnDeadServers: whoever does not answer is named, and nothing is lost.
func TestFoldOnDeadServers(t *testing.T) {
	t.Parallel()
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Start(t, redistest.Options{AOF: true}))
	}
	list, direct := clients(t, servers)
	g := newGroup(t, list, direct)
	g.fill(1200)
	before := g.mustRead(g.Scatter)
	const brief = 2 * time.Second
	short := g.again()
	short.cfg.Timeout = brief
	for i, dead := range []string{"s0", "s2"} {
		server := servers[2*i]
		server.Pause()
		_, err := short.Fold(t.Context(), "s0", g.match())
		if err == nil || !strings.Contains(err.Error(), "server "+dead) {
			t.Errorf("Fold with %s silent = %v, want it named", dead, err)
		}
		server.Resume()
	}
	g.wantSame("after servers were silent", g.Scatter, before)

	// One that dies in the middle.
	k := &killer{at: 12, kill: func(error) { servers[1].Kill() }}
	short = g.again(k)
	short.cfg.Timeout = brief
	_, err := short.Fold(t.Context(), "s0", g.match())
	if err == nil || !strings.Contains(err.Error(), "server s1") {
		t.Errorf("Fold while s1 is killed = %v, want it named", err)
	}
	servers[1].Restart()
	g.wantSame("after a server has died", g.again(), before)
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Fatal(err)
	}
	g.wantSame("after the fold", g.again(), before)
	g.wantLeft("after the fold")
}

func TestFoldRefuses(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	g := newGroup(t, list, direct)
	g.fill(20)
	before := g.mustRead(g.Scatter)
	_, err := g.Fold(t.Context(), "nobody", FoldConfig{Match: "*"})
	wantError(t, err, ErrConfig)
	wantError(t, g.Reopen(t.Context(), "nobody"), ErrConfig)
	_, err = g.Fold(t.Context(), "s0", FoldConfig{})
	wantError(t, err, ErrConfig)
	lone := scatterOver(t, list[:1], g.cfg)
	_, err = lone.Fold(t.Context(), "s0", FoldConfig{Match: "*"})
	wantError(t, err, ErrConfig)

	// A fold that is cut off: what takes its parcels cannot leave, nor be left out.
	k := &killer{at: 12}
	ctx, kill := context.WithCancelCause(t.Context())
	k.kill = kill
	_, err = g.again(k).Fold(ctx, "s0", g.match())
	if !killed(err) {
		t.Fatalf("Fold that is killed = %v", err)
	}
	_, err = g.Fold(t.Context(), "s1", g.match())
	wantError(t, err, ErrFold)
	if n := integer(t, direct[1], "HEXISTS", metaKey(g.base), "closed"); n != 0 {
		t.Error("a server whose fold was refused is closed")
	}
	fewer := scatterOver(t, list[:2], g.cfg)
	_, err = fewer.Fold(t.Context(), "s0", g.match())
	wantError(t, err, ErrFold)
	g.wantSame("after all that was refused", g.Scatter, before)
	if _, err := g.Fold(t.Context(), "s0", g.match()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Fold(t.Context(), "s1", g.match()); err != nil {
		t.Fatal(err)
	}
	_, err = g.Fold(t.Context(), "s2", g.match())
	wantError(t, err, ErrClosed) // all others have left
	g.wantSame("after two have left", g.Scatter, before)
	if n := integer(t, direct[2], "HEXISTS", metaKey(g.base), "closed"); n != 0 {
		t.Error("the last server is closed")
	}
	if err := g.Reopen(t.Context(), "s2"); err != nil {
		t.Error(err)
	}
}
