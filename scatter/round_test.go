package scatter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
)

// A departing is a server that is left, played step by step with plain commands, while
// both it and the one that takes its values are written to. After each step it notes
// what a gather would find on each of the two. Then it looks at every pair of moments.
type departing struct {
	t        *testing.T
	draw     func(n int) int
	read     *script.Script
	sc       *Scatter
	from, to rueidis.Client
	g        *Gather
	keys     map[string]string // by kind

	fold   int
	number map[string]int // of the last parcel
	on     string         // the key whose parcel is on its way
	put    bool           // whether it has been put down
	stage  int            // of the fold
	clock  int64
	writes []write
	seen   [][2]*reply
}

// A write was done to one of the two servers, and is first seen after a step.
type write struct {
	server, step int
	what         string
}

func newDeparting(t *testing.T, clients [2]rueidis.Client, read *script.Script, draw func(n int) int) *departing {
	d := &departing{t: t, draw: draw, read: read, from: clients[0], to: clients[1], number: map[string]int{}}
	prefix := redistest.Name(t)
	d.sc = scatterOver(t, []Server{{Name: "from", Client: d.from}, {Name: "to", Client: d.to}}, Config{Group: prefix, Timeout: steadyConfig.Timeout})
	d.keys = map[string]string{"n": prefix + "-n", "list": prefix + "-list", "set": prefix + "-set", "scores": prefix + "-scores"}
	return d
}

func (d *departing) side(name string) string { return d.sc.base + ":" + name }

// write writes something that nobody else writes, to one of the servers.
func (d *departing) write() {
	server := d.draw(2)
	client := []rueidis.Client{d.from, d.to}[server]
	d.clock++
	what := fmt.Sprintf("%03d", d.clock)
	must(d.t, client, "INCRBY", d.keys["n"], fmt.Sprint(d.clock))
	must(d.t, client, "LPUSH", d.keys["list"], fmt.Sprint(d.clock, " ", what))
	must(d.t, client, "SADD", d.keys["set"], what)
	must(d.t, client, "ZINCRBY", d.keys["scores"], fmt.Sprint(d.clock), "m"+fmt.Sprint(d.clock%3))
	d.writes = append(d.writes, write{server, len(d.seen), what})
}

// move does the next step of the fold.
func (d *departing) move() {
	switch {
	case d.stage == 0:
		d.fold++
		must(d.t, d.from, "HSET", d.side("meta"), "fold", fmt.Sprint(d.fold))
		d.stage++
	case d.stage == 1:
		must(d.t, d.to, "DEL", d.side("applied:from"))
		must(d.t, d.to, "HSET", d.side("applied:from"), "", fmt.Sprint(d.fold))
		d.number = map[string]int{}
		d.stage++
	case d.on != "" && !d.put:
		d.putDown(d.on)
		d.put = true
	case d.on != "":
		must(d.t, d.from, "DEL", d.side("parcel:"+d.keys[d.on]))
		must(d.t, d.from, "HDEL", d.side("out"), d.keys[d.on])
		d.on = ""
	case d.stage < 8 && d.draw(6) > 0:
		d.take(slices.Sorted(maps.Keys(d.keys))[d.draw(4)])
		d.stage++
	case d.stage < 9:
		must(d.t, d.from, "DEL", d.side("taken"))
		must(d.t, d.from, "HDEL", d.side("meta"), "fold")
		must(d.t, d.from, "HSET", d.side("meta"), "ended", fmt.Sprint(d.fold))
		d.stage = 9
	default:
		must(d.t, d.to, "DEL", d.side("applied:from"))
		must(d.t, d.to, "HINCRBY", d.side("meta"), "parted", "1")
		d.stage = 0
	}
}

// take takes a parcel out of a key.
func (d *departing) take(kind string) {
	key, parcel := d.keys[kind], d.side("parcel:"+d.keys[kind])
	if integer(d.t, d.from, "EXISTS", key) == 0 {
		return
	}
	switch kind {
	case "n":
		must(d.t, d.from, "RENAME", key, parcel)
	case "list":
		must(d.t, d.from, "LMOVE", key, parcel, "RIGHT", "LEFT")
	case "set":
		must(d.t, d.from, "SADD", parcel, text(d.t, d.from, "SPOP", key))
	case "scores":
		for _, member := range words(d.t, d.from, "ZRANGE", key, "0", "1") {
			must(d.t, d.from, "ZADD", parcel, text(d.t, d.from, "ZSCORE", key, member), member)
			must(d.t, d.from, "ZREM", key, member)
		}
	}
	d.number[kind]++
	must(d.t, d.from, "HSET", d.side("taken"), key, fmt.Sprint(d.number[kind]))
	must(d.t, d.from, "HSET", d.side("out"), key, fmt.Sprint(d.number[kind], " sum to"))
	d.on, d.put = kind, false
}

// putDown adds the parcel to what the other server has.
func (d *departing) putDown(kind string) {
	key, parcel := d.keys[kind], d.side("parcel:"+d.keys[kind])
	switch kind {
	case "n":
		must(d.t, d.to, "INCRBY", key, text(d.t, d.from, "GET", parcel))
	case "list":
		all := append(words(d.t, d.to, "LRANGE", key, "0", "-1"), words(d.t, d.from, "LRANGE", parcel, "0", "-1")...)
		slices.SortFunc(all, func(a, b string) int { return cmp.Compare(entryTime(b), entryTime(a)) })
		must(d.t, d.to, "DEL", key)
		must(d.t, d.to, append([]string{"RPUSH", key}, all...)...)
	case "set":
		must(d.t, d.to, append([]string{"SADD", key}, words(d.t, d.from, "SMEMBERS", parcel)...)...)
	case "scores":
		for _, member := range words(d.t, d.from, "ZRANGE", parcel, "0", "-1") {
			must(d.t, d.to, "ZINCRBY", key, text(d.t, d.from, "ZSCORE", parcel, member), member)
		}
	}
	must(d.t, d.to, "HSET", d.side("applied:from"), key, fmt.Sprint(d.number[kind]))
}

func entryTime(entry string) int {
	ms, _, _ := strings.Cut(entry, " ")
	n, _ := strconv.Atoi(ms)
	return n
}

// look notes what a gather would find now.
func (d *departing) look() error {
	var both [2]*reply
	for i, one := range d.sc.servers {
		message, err := d.sc.run(d.t.Context(), one, d.read, d.g.args()...)
		if err != nil {
			return err
		}
		if both[i], err = parseReply(message, len(d.g.asks)); err != nil {
			return err
		}
	}
	d.seen = append(d.seen, both)
	return nil
}

// play goes through some steps, and checks what gathers find that see the servers at
// any two moments.
func (d *departing) play(steps int) error {
	d.g = d.sc.Gather()
	n, entries := d.g.Int(d.keys["n"]), d.g.List(d.keys["list"], 1000)
	set, scores := d.g.Set(d.keys["set"]), d.g.Scores(d.keys["scores"], Sum, 0)
	if err := d.look(); err != nil {
		return err
	}
	for range steps {
		if d.draw(4) == 0 {
			d.write()
		} else {
			d.move()
		}
		if err := d.look(); err != nil {
			return err
		}
	}
	for from := range d.seen {
		for to := range d.seen {
			want := d.expected(from, to)
			r := newRound(d.sc.servers, d.g.asks, 1000)
			before := d.seen[min(from, to)]
			r.known = []*past{&before[0].past, &before[1].past}
			r.replies = []*reply{d.seen[from][0], d.seen[to][1]}
			r.judge()
			for _, result := range d.g.results {
				if err := result.fill(r); err != nil {
					return err
				}
			}
			if from == to && !r.fits() {
				return fmt.Errorf("seen at the same moment, %d, and it does not fit: %w", from, errors.Join(r.missing()...))
			}
			if !r.fits() {
				most := d.expected(max(from, to), max(from, to))
				if n.Value > most.n || len(set.Value) > len(most.all) || len(entries.Value) > len(most.all) {
					return fmt.Errorf("seen at %d and %d: %d, %v, %v, are more than the %d, %v there are", from, to, n.Value, set.Value, entries.Value, most.n, most.all)
				}
				continue
			}
			got := found{n: n.Value, all: set.Value, scores: map[string]float64{}}
			for _, s := range scores.Value {
				got.scores[s.Member] = s.Score
			}
			slices.Reverse(entries.Value)
			for _, e := range entries.Value {
				got.entries = append(got.entries, string(e.Body))
			}
			if !reflect.DeepEqual(got, want) { // a diff of each would take most of the time
				return fmt.Errorf("seen at %d and %d: %v, want %v", from, to, got, want)
			}

			if from != to {
				continue
			}
			r.replies[1], r.failed[1] = nil, errors.New("gone")
			r.judge()
			for _, result := range d.g.results {
				_ = result.fill(r)
			}
			if n.Value > want.n || !errors.Is(n.Err, ErrPartial) {
				return fmt.Errorf("seen at %d only: %d, %w, of %d", from, n.Value, n.Err, want.n)
			}
		}
	}
	return nil
}

// found is what a gather has found.
type found struct {
	n            int64
	all, entries []string
	scores       map[string]float64
}

// expected is what was written to each of the servers by the moment when it is seen.
func (d *departing) expected(from, to int) found {
	f := found{scores: map[string]float64{}}
	for _, w := range d.writes {
		if w.step <= []int{from, to}[w.server] {
			x, _ := strconv.ParseInt(w.what, 10, 64)
			f.n += x
			f.all = append(f.all, w.what)
			f.scores["m"+fmt.Sprint(x%3)] += float64(x)
		}
	}
	f.entries = f.all
	return f
}

// TestGatherWhileAServerIsLeft looks at a fold at every two moments.
func TestGatherWhileAServerIsLeft(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	clients := [2]rueidis.Client{servers[0].Client(t), servers[1].Client(t)}
	plays := uint64(20)
	if os.Getenv("MILLRACE_SOAK") != "" {
		plays = 500
	}
	for seed := range plays {
		if err := newDeparting(t, clients, readScript, rand.New(rand.NewPCG(seed, 0)).IntN).play(20); err != nil {
			t.Fatalf("play %d: %v", seed, err)
		}
	}
}

// TestEveryMarkIsNeeded takes out what the script says about folds, part by part, and
// expects that a gather is wrong, or never fits.
func TestEveryMarkIsNeeded(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	clients := [2]rueidis.Client{servers[0].Client(t), servers[1].Client(t)}
	for _, protection := range []struct{ name, old, replacement string }{
		{"the number of the last parcel taken", "if number then", "if false then"},
		{"the number of the last parcel put down", "if last then", "if false then"},
		{"the parcel on its way", "redis.call('HEXISTS', out, key) == 1", "false"},
		{"the fold that is under way", "'fold')", "'none')"},
		{"the last fold that has ended", "'ended',", "'none',"},
		{"how often it was forgotten what was taken", "'parted',", "'none',"},
		{"the fold in which it was taken", "if fold then", "if false then"},
	} {
		t.Run(protection.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(readSource, protection.old) {
				t.Fatalf("the script has no %q: the sabotage would prove nothing", protection.old)
			}
			read := script.New("scatter.sabotaged", strings.Replace(readSource, protection.old, protection.replacement, 1), openFragment)
			lot := rand.New(rand.NewPCG(0, 1))
			for range 100 {
				if newDeparting(t, clients, read, lot.IntN).play(20) != nil {
					return
				}
			}
			t.Error("every gather is right without it")
		})
	}
}

// TestFoldsThatAreOver: who finds that a fold has ended looks again, once.
func TestFoldsThatAreOver(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	sc := newScatter(t, servers, steadyConfig)
	from, to := servers[0].Client(t), servers[1].Client(t)
	must(t, to, "SET", "n", "5")
	g := sc.Gather()
	n := g.Int("n")
	asked := 0
	read := func(what string, rounds int) {
		t.Helper()
		if err := g.Read(t.Context()); err != nil || n.Value != 5 {
			t.Errorf("%s: %d, %v, want 5", what, n.Value, err)
		}
		asked += rounds
		if got, want := calls(servers[1], "evalsha"), fmt.Sprint("calls=", asked); got != want {
			t.Errorf("%s: evalsha %s, want %s", what, got, want)
		}
	}
	read("no fold", 1)
	must(t, from, "HSET", metaKey(sc.base), "ended", "7")
	must(t, to, "HSET", appliedKey(sc.base, "s0"), "", "7", "n", "3") // not forgotten yet
	read("ended", 2)
	read("known", 1)
	must(t, to, "DEL", appliedKey(sc.base, "s0"))
	must(t, to, "HSET", metaKey(sc.base), "parted", "1")
	read("forgotten", 2)
	read("known", 1)
	must(t, from, "FLUSHALL") // it comes back as another server
	read("another server", 2)
	read("known", 1)
}

// TestWhatDoesNotFit leaves out a server of which nobody can tell what has gone to others.
func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, steadyConfig)
	for i, one := range servers {
		client := one.Client(t)
		must(t, client, "SET", "n", fmt.Sprint(1+10*i))
		must(t, client, "SET", "other", "1")
	}
	must(t, servers[0].Client(t), "HSET", metaKey(sc.base), "fold", "7")
	must(t, servers[2].Client(t), "HSET", appliedKey(sc.base, "s0"), "", "7", "n", "2")
	g := sc.Gather()
	n, other := g.Int("n"), g.Int("other")
	wantMissing(t, g.Read(t.Context()), "s0")
	wantMissing(t, n.Err, "s0")
	if n.Value != 32 || n.Answered != 2 {
		t.Errorf("value = %d of %d servers, want 32 of 2", n.Value, n.Answered)
	}
	if other.Value != 3 || other.Err != nil {
		t.Errorf("another value = %d, %v, want 3", other.Value, other.Err)
	}
	if got, want := calls(servers[1], "evalsha"), fmt.Sprint("calls=", maxRounds); got != want {
		t.Errorf("evalsha %s, want %s", got, want)
	}
}

// TestParcelsForADeadServer: what is on its way to a server that does not answer counts,
// for that one's value does not.
func TestParcelsForADeadServer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc := newScatter(t, servers, Config{Timeout: 300 * time.Millisecond})
	from := servers[0].Client(t)
	must(t, from, "SET", "n", "1")
	must(t, from, "HSET", metaKey(sc.base), "fold", "7")
	must(t, from, "HSET", takenKey(sc.base), "n", "2")
	must(t, from, "HSET", outKey(sc.base), "n", "2 sum s2")
	must(t, from, "SET", parcelKey(sc.base, "n"), "4")
	must(t, servers[1].Client(t), "SET", "n", "10")
	servers[2].Kill()
	g := sc.Gather()
	n := g.Int("n")
	wantMissing(t, g.Read(t.Context()), "s2")
	if got, want := n.Value, int64(15); got != want {
		t.Errorf("value = %d, want %d", got, want)
	}
}
