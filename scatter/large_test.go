package scatter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// maxReply is the largest reply to a call: about maxBytes, and the bytes that one step of the
// script has read when it sees that this is enough.
const maxReply = 2 * maxBytes

// netOutput returns how many bytes a server has sent.
func netOutput(t *testing.T, server *redistest.Server) int {
	t.Helper()
	n, err := strconv.Atoi(server.Info("stats")["total_net_output_bytes"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// onCall is called before each call.
type onCall func()

func (f onCall) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	f()
	return ctx, nil
}

// readInSteps reads, does something before each further call to the one server, and
// returns how many calls it took and how many bytes the largest of them brought.
func readInSteps(t *testing.T, sc *Scatter, server *redistest.Server, g *Gather, between func()) (largest, steps int) {
	t.Helper()
	before := netOutput(t, server)
	sc.cfg.Hooks = append(sc.cfg.Hooks, onCall(func() {
		if steps++; steps > 1 {
			largest = max(largest, netOutput(t, server)-before)
			between()
		}
		before = netOutput(t, server)
	}))
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return max(largest, netOutput(t, server)-before), steps
}

// TestLargeValues: a value of more than 1 MiB comes in several calls, whole, also when
// something is written between them.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	const all = 400
	body := strings.Repeat("b", 20_000)
	for i := range all {
		name := fmt.Sprint(i, " ", body)
		must(t, c, "SADD", "set", name)
		must(t, c, "ZADD", "scores", fmt.Sprint(i), name)
		must(t, c, "RPUSH", "list", at(int64(all-i), name))
	}
	g := sc.Gather()
	n, set, scores, list := g.Int("n"), g.Set("set"), g.Scores("scores", Sum, 0), g.List("list", 2*all)
	end := g.Int("end")
	must(t, c, "SET", "end", "7")
	pushed := 0
	largest, steps := readInSteps(t, sc, servers[0], g, func() {
		pushed++
		must(t, c, "LPUSH", "list", at(int64(all+pushed), "new"))
		must(t, c, "SADD", "set", fmt.Sprint("new", pushed))
		must(t, c, "ZADD", "scores", "-1", fmt.Sprint("new", pushed))
		must(t, c, "ZADD", "scores", "XX", "0", "0 "+body)
	})
	if largest > maxReply || steps < 3*all*20_000/maxBytes/2 {
		t.Errorf("%d calls, the largest of %d bytes, want many of %d at most", steps, largest, maxReply)
	}
	if n.Value != 0 || end.Value != 7 {
		t.Errorf("counters = %d and %d, want 0 and 7", n.Value, end.Value)
	}
	old := func(text string) bool { return !strings.HasPrefix(text, "new") }
	var members []string
	for _, m := range set.Value {
		if old(m) {
			members = append(members, m)
		}
	}
	if len(members) != all || len(slices.Compact(members)) != all {
		t.Errorf("%d members, want %d", len(members), all)
	}
	scored := map[string]float64{}
	for _, s := range scores.Value {
		if old(s.Member) {
			scored[s.Member] = s.Score
		}
	}
	for i := range all {
		if got := scored[fmt.Sprint(i, " ", body)]; got != float64(i) {
			t.Errorf("the score of member %d is %v", i, got)
		}
	}
	var entries []string
	for _, e := range list.Value {
		if old(string(e.Body)) {
			entries = append(entries, string(e.Body))
		}
	}
	for i, e := range entries {
		if want := fmt.Sprint(i, " ", body); e != want {
			t.Fatalf("entry %d is %.10q, want %.10q", i, e, want)
		}
	}
	if len(entries) != all {
		t.Errorf("%d entries, %d of them old, want all %d", len(list.Value), len(entries), all)
	}
}

// TestLargeValueIsGone: of a value that ends while it is read nothing is left.
func TestLargeValueIsGone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"set", "scores", "list"} {
		servers := startServers(t, 1)
		sc := newScatter(t, servers, Config{})
		c := servers[0].Client(t)
		body := strings.Repeat("b", 20_000)
		g := sc.Gather()
		size := func() int { return -1 }
		for i := range 100 {
			name := fmt.Sprint(i, " ", body)
			switch kind {
			case "set":
				must(t, c, "SADD", "x", name)
			case "scores":
				must(t, c, "ZADD", "x", "1", name)
			case "list":
				must(t, c, "LPUSH", "x", at(int64(i), name))
			}
		}
		switch kind {
		case "set":
			r := g.Set("x")
			size = func() int { return len(r.Value) }
		case "scores":
			r := g.Scores("x", Sum, 0)
			size = func() int { return len(r.Value) }
		case "list":
			r := g.List("x", 100)
			size = func() int { return len(r.Value) }
		}
		if _, steps := readInSteps(t, sc, servers[0], g, func() { must(t, c, "DEL", "x") }); steps != 2 || size() != 0 {
			t.Errorf("%s: %d values after %d calls, want none after 2", kind, size(), steps)
		}
	}
}

// TestManyKeys: as many keys as a gather takes come in calls of 1,000.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	var calls atomic.Int64
	sc := newScatter(t, servers, Config{Hooks: []millrace.Hook{onCall(func() { calls.Add(1) })}})
	c := servers[0].Client(t)
	g := sc.Gather()
	results := make([]*Result[int64], maxKeys)
	for i := range results {
		results[i] = g.Int(fmt.Sprint("n", i))
	}
	must(t, c, "SET", "n0", "1")
	must(t, c, "SET", fmt.Sprint("n", keysPerCall), "2")
	must(t, c, "SET", fmt.Sprint("n", maxKeys-1), "3")
	if err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b, c := results[0].Value, results[keysPerCall].Value, results[maxKeys-1].Value; a != 1 || b != 2 || c != 3 {
		t.Errorf("counters = %d, %d and %d, want 1, 2 and 3", a, b, c)
	}
	if got := calls.Load(); got != maxKeys/keysPerCall {
		t.Errorf("%d calls, want %d", got, maxKeys/keysPerCall)
	}
}

// TestReadIsBounded: whatever the values are like, one call brings about 1 MiB, and not
// more of them than that has room for.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("large entries behind small ones", func(t *testing.T) {
		t.Parallel()
		servers := startServers(t, 1)
		sc := newScatter(t, servers, Config{})
		c := servers[0].Client(t)
		for i := range 360 {
			body := "small"
			if i < 60 {
				body = strings.Repeat("b", maxBody/2)
			}
			must(t, c, "LPUSH", "list", at(int64(i), body))
		}
		g := sc.Gather()
		list := g.List("list", 360)
		largest, _ := readInSteps(t, sc, servers[0], g, func() {})
		if most := maxReply + 20*maxBody/2; largest > most || len(list.Value) != 360 {
			t.Errorf("a call brings %d bytes, want %d at most; %d entries", largest, most, len(list.Value))
		}
	})
	t.Run("many small members of many sets", func(t *testing.T) {
		t.Parallel()
		servers := startServers(t, 1)
		sc := newScatter(t, servers, Config{})
		c := servers[0].Client(t)
		const sets, members = 20, 5_000
		g := sc.Gather()
		var results []*Result[[]string]
		for i := range sets {
			args := []string{"SADD", fmt.Sprint("set", i)}
			for j := range members {
				args = append(args, fmt.Sprint(j))
			}
			must(t, c, args...)
			results = append(results, g.Set(args[1]))
		}
		_, steps := readInSteps(t, sc, servers[0], g, func() {})
		if least := sets * members * 64 / maxBytes; steps < least {
			t.Errorf("%d members in %d calls, want %d", sets*members, steps, least)
		}
		for i, r := range results {
			if len(r.Value) != members {
				t.Errorf("set %d has %d members, want %d", i, len(r.Value), members)
			}
		}
	})
	t.Run("a text that is no number", func(t *testing.T) {
		t.Parallel()
		servers := startServers(t, 1)
		sc := newScatter(t, servers, Config{})
		const long = 40 * maxBytes
		must(t, servers[0].Client(t), "SETRANGE", "n", strconv.Itoa(long), "1")
		peak := func() int {
			n, err := strconv.Atoi(servers[0].Info("memory")["used_memory_peak"])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := peak()
		g := sc.Gather()
		n := g.Int("n")
		wantError(t, g.Read(t.Context()), ErrType)
		wantError(t, n.Err, ErrType)
		if after := peak(); after > before+long/2 {
			t.Errorf("the server's memory peaks at %d bytes, and at %d before: the script looks at all of the text", after, before)
		}
	})
	t.Run("an entry is looked for", func(t *testing.T) {
		t.Parallel()
		servers := startServers(t, 1)
		sc := newScatter(t, servers, Config{})
		c := servers[0].Client(t)
		body := strings.Repeat("b", 100_000)
		for i := range 30 {
			must(t, c, "LPUSH", "list", at(int64(i), body))
		}
		g := sc.Gather()
		list := g.List("list", 30)
		pushed := false
		_, steps := readInSteps(t, sc, servers[0], g, func() {
			for i := 0; i < 40 && !pushed; i++ { // more than one call looks through
				must(t, c, "LPUSH", "list", at(int64(100+i), body))
			}
			pushed = true
		})
		if len(list.Value) != 30 || list.Value[0].At.UnixMilli() != 29 || list.Value[29].At.UnixMilli() != 0 || steps < 6 {
			t.Errorf("%d entries in %d calls, want the 30 of the beginning", len(list.Value), steps)
		}
	})
}
