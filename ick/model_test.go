package ick

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// model is an Ick as its documentation describes it, in the plainest words.
// Reservations are numbered 1, 2, 3, ...
type model struct {
	backwash   bool
	pset, cset map[string]float64
	folds      map[string]int // reserved member -> reservation that last folded it
	seq        int
	tokens     string // the newest ones, as in Redis
	parked     map[string]float64
}

func newModel(backwash bool) *model {
	return &model{
		backwash: backwash, pset: map[string]float64{}, cset: map[string]float64{},
		folds: map[string]int{}, parked: map[string]float64{}, tokens: " ",
	}
}

func (m *model) clone() *model {
	c := *m
	c.pset, c.cset, c.folds, c.parked = maps.Clone(m.pset), maps.Clone(m.cset), maps.Clone(m.folds), maps.Clone(m.parked)
	return &c
}

// covered is the number of a batch's reservation, -1 if the Ick does not know it.
func (m *model) covered(b *heldBatch) int {
	if !strings.Contains(m.tokens, " "+b.token+" ") {
		return -1
	}
	return b.seq
}

// lower folds a mark into a set and reports whether the member is new there and
// whether its score went down.
func lower(set map[string]float64, member string, score float64) (isNew, lowered bool) {
	before, ok := set[member]
	if !ok || score < before {
		set[member] = score
	}
	return !ok, ok && score < before
}

// sorted returns a set in the order of a Redis sorted set.
func sorted(set map[string]float64) []Entry {
	var list []Entry
	for m, s := range set {
		list = append(list, Entry{m, s})
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Member, b.Member))
	})
	return list
}

func (m *model) add(list []Entry) Added {
	var added Added
	for _, e := range list {
		isNew, lowered := lower(m.pset, e.Member, e.Score)
		if isNew {
			added.New++
		}
		if lowered {
			added.Lowered++
		}
	}
	return added
}

func (m *model) commit(token int, members []string) Committed {
	var c Committed
	for _, member := range members {
		_, reserved := m.cset[member]
		switch {
		case reserved && m.folds[member] <= token:
			delete(m.cset, member)
			delete(m.folds, member)
			delete(m.parked, member)
			c.Committed++
		case reserved:
			c.Kept++
		}
	}
	return c
}

func (m *model) reserve(n int) []Entry {
	if n == 0 {
		return nil
	}
	seq := m.seq + 1 // drawn if anything moves
	fold := func(e Entry) {
		m.seq = seq
		delete(m.pset, e.Member)
		lower(m.cset, e.Member, e.Score)
		m.folds[e.Member] = seq
	}
	for len(m.cset) < n && len(m.pset) > 0 {
		fold(sorted(m.pset)[0])
	}
	for m.backwash && len(m.cset) >= n {
		youngest := sorted(m.cset)[len(m.cset)-1]
		if len(m.cset) > n {
			m.seq = seq
			delete(m.cset, youngest.Member)
			delete(m.folds, youngest.Member)
			lower(m.pset, youngest.Member, youngest.Score)
			continue
		}
		waiting := sorted(m.pset)
		if len(waiting) == 0 || waiting[0].Score >= youngest.Score {
			break
		}
		fold(waiting[0])
	}
	entries := sorted(m.cset)
	return entries[:min(n, len(entries))]
}

func (m *model) park(token int, members []string) int {
	n := 0
	for _, member := range members {
		if score, ok := m.cset[member]; ok && m.folds[member] <= token {
			m.parked[member] = score
			delete(m.cset, member)
			delete(m.folds, member)
			n++
		}
	}
	return n
}

func (m *model) retry(members []string) int {
	n := 0
	for _, member := range members {
		if score, ok := m.parked[member]; ok {
			lower(m.pset, member, score)
			delete(m.parked, member)
			n++
		}
	}
	return n
}

// machine plays random histories on an Ick and the model side by side.
type machine struct {
	t     *testing.T
	k     *Ick
	model *model
	lose  func(*rapid.T) bool // may arm the loss of the next reply

	last      int            // the newest version
	version   map[string]int // of each document that was marked
	processed map[string]int
	held      [3]heldBatch // by three consumers
	replica   replica
}

// replica is the state of a server that lags behind.
type replica struct {
	state   map[string]string
	model   *model
	version map[string]int
}

type heldBatch struct {
	token string
	seq   int
	saw   map[string]int
}

func (c *machine) check(r *rapid.T, what string, got, want any, err error) {
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.Fatalf("%s (-model +ick):\n%s", what, diff)
	}
}

var (
	someMember = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", ""})
	someScore  = rapid.OneOf(
		rapid.Map(rapid.IntRange(-3, 9), func(i int) float64 { return float64(i) / 2 }),
		rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), 1.0 / 3, 1700000000.123456}),
	)
	someMark = rapid.Custom(func(r *rapid.T) Entry { return Entry{someMember.Draw(r, "member"), someScore.Draw(r, "score")} })
)

func (c *machine) add(r *rapid.T) {
	list := rapid.SliceOfN(someMark, 1, 4).Draw(r, "marks")
	for _, e := range list {
		c.last++
		c.version[e.Member] = c.last
	}
	lost := c.lose(r)
	got, err := c.k.Add(c.t.Context(), list...)
	want := c.model.add(list)
	if lost { // a repeat's answer tells of marks that were there by then
		want = got
	}
	c.check(r, "add", got, want, err)
}

func (c *machine) exchange(r *rapid.T) {
	b := &c.held[rapid.IntRange(0, len(c.held)-1).Draw(r, "consumer")]
	var members []string
	if b.token != "" && rapid.Bool().Draw(r, "commits") {
		members = c.process(r, b)
	}
	n := rapid.IntRange(0, 5).Draw(r, "n")
	c.lose(r)
	got, committed, err := c.k.Exchange(c.t.Context(), b.token, members, n)
	c.check(r, "commit in exchange", committed, c.model.commit(c.model.covered(b), members), err)
	before := c.model.seq
	c.check(r, "reserve in exchange", show(got.Entries), show(c.model.reserve(n)), nil)
	if c.model.seq != before {
		c.model.tokens = " " + got.Token + c.model.tokens[:min(len(c.model.tokens), 512)]
	}
	if n > 0 {
		*b = heldBatch{token: got.Token, seq: c.model.seq, saw: map[string]int{}}
		for _, e := range got.Entries {
			b.saw[e.Member] = c.version[e.Member]
		}
	}
}

// process draws members of a batch, and others, and does their work.
func (c *machine) process(r *rapid.T, b *heldBatch) []string {
	members := rapid.SliceOfNDistinct(someMember, 1, 5, rapid.ID).Draw(r, "members")
	members = slices.DeleteFunc(members, func(m string) bool { _, ok := b.saw[m]; return !ok })
	for _, m := range members {
		c.processed[m] = max(c.processed[m], b.saw[m])
	}
	return members
}

func (c *machine) commit(r *rapid.T) {
	b := &c.held[rapid.IntRange(0, len(c.held)-1).Draw(r, "consumer")]
	if b.token == "" {
		r.Skip("holds nothing")
	}
	members := c.process(r, b)
	c.lose(r)
	got, err := c.k.Commit(c.t.Context(), b.token, members...)
	want := c.model.commit(c.model.covered(b), members)
	if stale := want.Committed == 0 && len(members) > 0; stale != errors.Is(err, millrace.ErrStale) {
		r.Fatalf("commit: error %v, stale in the model: %v", err, stale)
	}
	c.check(r, "commit", got, want, nil)
}

func (c *machine) park(r *rapid.T) {
	b := &c.held[rapid.IntRange(0, len(c.held)-1).Draw(r, "consumer")]
	if b.token == "" {
		r.Skip("holds nothing")
	}
	members := rapid.SliceOfNDistinct(someMember, 1, 3, rapid.ID).Draw(r, "members")
	lost := c.lose(r)
	got, err := c.k.park(c.t.Context(), b.token, ConsumeConfig{MaxAttempts: 1}, "why", members)
	want := c.model.park(c.model.covered(b), members)
	if lost {
		want = got
	}
	c.check(r, "park", got, want, err)
}

func (c *machine) retry(r *rapid.T) {
	members := rapid.SliceOfNDistinct(someMember, 1, 3, rapid.ID).Draw(r, "members")
	lost := c.lose(r)
	got, err := c.k.Retry(c.t.Context(), members...)
	want := c.model.retry(members)
	if lost {
		want = got
	}
	c.check(r, "retry", got, want, err)
}

// replicate has a replica catch up.
func (c *machine) replicate(*rapid.T) {
	c.replica = replica{dump(c.t, c.k), c.model.clone(), maps.Clone(c.version)}
}

// failOver replaces the master by the replica. Later changes of the master are lost: marks, and
// reservations whose tokens consumers still hold.
func (c *machine) failOver(r *rapid.T) {
	if c.replica.model == nil {
		r.Skip("no replica")
	}
	restore(c.t, c.k, c.replica.state)
	c.model, c.version = c.replica.model.clone(), maps.Clone(c.replica.version)
}

// invariant: the Ick equals the model, and every document whose last version is not
// processed is still marked somewhere.
func (c *machine) invariant(r *rapid.T) {
	ctx := c.t.Context()
	client := c.k.run.Client
	zrange := func(part string) rueidis.Completed {
		return client.B().Zrange().Key(key(c.k.name, part)).Min("0").Max("-1").Withscores().Build()
	}
	sets := client.DoMulti(ctx, zrange(keyPset), zrange(keyCset), zrange(keyParked))
	for i, set := range []map[string]float64{c.model.pset, c.model.cset} {
		held := map[string]float64{}
		zs, err := sets[i].AsZScores()
		for _, z := range zs {
			held[z.Member] = z.Score
		}
		c.check(r, []string{"producer set", "consumer set"}[i], show(sorted(held)), show(sorted(set)), err)
	}
	zs, err := sets[2].AsZScores()
	rests := map[string]bool{}
	for _, z := range zs {
		rests[z.Member] = true
	}
	modelRests := map[string]bool{}
	for m := range c.model.parked {
		modelRests[m] = true
	}
	c.check(r, "parked", rests, modelRests, err)
	for m, version := range c.version {
		_, waits := c.model.pset[m]
		_, reserved := c.model.cset[m]
		_, rests := c.model.parked[m]
		if c.processed[m] < version && !waits && !reserved && !rests {
			r.Fatalf("forgotten: %q processed at %d of %d", m, c.processed[m], version)
		}
	}
}

// TestModel plays random histories of three consumers on a server, with failovers that lose
// writes, through a proxy that executes and then loses replies, and on miniredis.
func TestModel(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	straight := server.Client(t)
	scripttest.Load(t, straight, library)

	never := func(*rapid.T) bool { return false }
	sometimes := func(r *rapid.T) bool {
		if rapid.IntRange(0, 3).Draw(r, "lose the reply") > 0 {
			return false
		}
		proxy.DropReply(evalsha)
		return true
	}
	for _, engine := range []struct {
		name   string
		client rueidis.Client
		lose   func(*rapid.T) bool
	}{
		{"server", straight, never},
		{"lossy", proxy.Client(t), sometimes},
		{"miniredis", miniClient(t), never},
	} {
		t.Run(engine.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				backwash := rapid.Bool().Draw(r, "backwash")
				k := openOn(t, engine.client, redistest.Name(t), Config{Backwash: backwash})
				c := &machine{
					t: t, k: k, model: newModel(backwash), lose: engine.lose,
					version: map[string]int{}, processed: map[string]int{},
				}
				steps := map[string]func(*rapid.T){
					"add": c.add, "exchange": c.exchange, "commit": c.commit, "park": c.park, "retry": c.retry,
					"": c.invariant,
				}
				if engine.name != "miniredis" { // which cannot restore a dump
					steps["replicate"], steps["failOver"] = c.replicate, c.failOver
				}
				r.Repeat(steps)
				if _, err := k.Delete(t.Context()); err != nil {
					r.Fatal(err)
				}
			})
		})
	}
}

// miniClient returns a client of an embedded miniredis.
func miniClient(t *testing.T) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{miniredis.RunT(t).Addr()}, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
