package ick

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A history plays one way in which a mark could be forgotten, and returns an
// error if it was.
type history struct {
	name string
	play func(h *hand) error
}

// hand plays histories: it knows which version of each document is the last one
// and which was processed, and never lets the library help it.
type hand struct {
	t         *testing.T
	k         *Ick
	version   map[string]int
	processed map[string]int
}

// holding is one consumer's reservation: a token, and the version of each document
// that it saw right after it reserved.
type holding struct {
	token string
	saw   map[string]int
}

func (h *hand) dirty(members ...string) {
	h.t.Helper()
	for _, m := range members {
		h.version[m]++
		if _, err := h.k.Add(h.t.Context(), Entry{m, float64(h.version[m])}); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hand) see(r Reservation) holding {
	b := holding{token: r.Token, saw: map[string]int{}}
	for _, e := range r.Entries {
		b.saw[e.Member] = h.version[e.Member]
	}
	return b
}

func (h *hand) reserve(n int) holding {
	h.t.Helper()
	r, err := h.k.Reserve(h.t.Context(), n)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.see(r)
}

// work acts as a handler: it brings the copy in line with the versions it saw.
func (h *hand) work(b holding, members ...string) {
	for _, m := range members {
		h.processed[m] = max(h.processed[m], b.saw[m])
	}
}

func (h *hand) commit(b holding, members ...string) Committed {
	h.t.Helper()
	c, err := h.k.Commit(h.t.Context(), b.token, members...)
	if err != nil && !errors.Is(err, millrace.ErrStale) {
		h.t.Fatal(err)
	}
	return c
}

// restore gives an Ick the state of a dump.
func restore(t *testing.T, k *Ick, state map[string]string) {
	t.Helper()
	for _, name := range keys(k.name) {
		if err := do(t, k.run.Client, "DEL", name).Error(); err != nil {
			t.Fatal(err)
		}
		if text, ok := state[name]; ok {
			if err := do(t, k.run.Client, "RESTORE", name, "0", text).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// finish works off the remaining marks and reports documents whose last version was not
// processed.
func (h *hand) finish() error {
	h.t.Helper()
	for range 20 {
		b := h.reserve(10)
		if len(b.saw) == 0 {
			break
		}
		for m := range b.saw {
			h.work(b, m)
			h.commit(b, m)
		}
	}
	var forgotten []string
	for m, version := range h.version {
		if h.processed[m] < version {
			forgotten = append(forgotten, fmt.Sprintf("%s at %d of %d", m, h.processed[m], version))
		}
	}
	slices.Sort(forgotten)
	if len(forgotten) > 0 {
		return fmt.Errorf("forgotten: %s", strings.Join(forgotten, ", "))
	}
	if s, err := h.k.Stats(h.t.Context()); err != nil || s.Total > 0 {
		return fmt.Errorf("left over: %+v, %w", s, err)
	}
	return nil
}

var histories = []history{
	{"second reserve before commit", func(h *hand) error {
		h.dirty("a", "b")
		first := h.reserve(1)
		h.work(first, "a")
		h.dirty("a")
		h.reserve(3) // folds the new mark for a into the consumer set
		h.commit(first, "a")
		return h.finish()
	}},
	{"two consumers", func(h *hand) error {
		h.dirty("a")
		one := h.reserve(1)
		h.work(one, "a")
		h.dirty("a", "b")
		two := h.reserve(3) // folds the new mark for a, too
		h.commit(one, "a")
		h.work(two, "b")
		h.commit(two, "b")
		return h.finish()
	}},
	{"zombie", func(h *hand) error {
		h.dirty("a")
		zombie := h.reserve(1)
		h.work(zombie, "a")
		alive := h.reserve(1)
		h.work(alive, "a")
		h.commit(alive, "a")
		h.dirty("a")
		h.reserve(1) // by a third, who dies
		h.commit(zombie, "a")
		return h.finish()
	}},
	{"zombie of an Ick that was deleted", func(h *hand) error {
		h.dirty("a", "b", "c")
		zombie := h.reserve(3)
		for range 5 { // a high number
			h.dirty("a")
			zombie = h.reserve(9)
		}
		h.work(zombie, "a")
		if _, err := h.k.Delete(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
		h.processed["b"], h.processed["c"] = h.version["b"], h.version["c"] // deleted on purpose
		h.dirty("a")
		h.reserve(1)
		h.commit(zombie, "a")
		return h.finish()
	}},
	{"failover to a clock that is behind", func(h *hand) error {
		h.dirty("a")
		replica := dump(h.t, h.k)
		lost := h.reserve(1) // not replicated
		h.work(lost, "a")
		restore(h.t, h.k, replica)
		h.dirty("a")
		h.reserve(1) // by another one, who dies; the number is the same
		h.commit(lost, "a")
		return h.finish()
	}},
	{"failover that lost several reservations", func(h *hand) error {
		h.dirty("a", "b", "c")
		replica := dump(h.t, h.k)
		h.reserve(1)
		lost := h.reserve(2)
		h.work(lost, "a")
		restore(h.t, h.k, replica)
		h.dirty("a")
		for n := range 3 {
			h.reserve(1 + n) // the last one's number is higher
		}
		h.commit(lost, "a")
		return h.finish()
	}},
	{"lost counters", func(h *hand) error {
		h.dirty("a", "b", "c")
		b := h.reserve(1)
		h.work(b, "a")
		if n, err := h.k.park(h.t.Context(), b.token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"a"}); n != 1 || err != nil {
			return fmt.Errorf("park = %d, %v, want 1", n, err)
		}
		for n := range 2 {
			h.reserve(1 + n)
		}
		if err := do(h.t, h.k.run.Client, "DEL", key(h.k.name, keyMeta)).Error(); err != nil {
			h.t.Fatal(err)
		}
		return h.finish()
	}},
	{"a foreign consumer's reservation", func(h *hand) error {
		h.dirty("a")
		ours := h.reserve(1)
		h.dirty("b")
		// A gem's reserve moves b, and knows nothing of folds.
		for _, command := range [][]string{
			{"ZREM", key(h.k.name, keyPset), "b"},
			{"ZADD", key(h.k.name, keyCset), "1", "b"},
		} {
			if err := do(h.t, h.k.run.Client, command...).Error(); err != nil {
				h.t.Fatal(err)
			}
		}
		if c := h.commit(ours, "b"); c.Committed != 0 || c.Kept != 1 {
			return fmt.Errorf("commit of a member that was never handed out here = %+v, want it kept", c)
		}
		return h.finish() // which hands b out, and then it can go
	}},
	{"parked with an old token", func(h *hand) error {
		h.dirty("a")
		first := h.reserve(1)
		h.dirty("a")
		h.reserve(2)
		n, err := h.k.park(h.t.Context(), first.token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"a"})
		if err != nil || n != 0 {
			return fmt.Errorf("park under an old token = %d, %v, want 0: the member was folded since", n, err)
		}
		return h.finish()
	}},
	{"dirtied in flight again and again", func(h *hand) error {
		h.dirty("a", "b", "c")
		for range 5 {
			b := h.reserve(2)
			h.dirty("a", "b")
			for m := range b.saw {
				h.work(b, m)
			}
			for m := range b.saw {
				h.commit(b, m)
			}
		}
		return h.finish()
	}},
	{"the oldest mark leads", func(h *hand) error {
		// The hot document is dirtied before every batch. With the time of the
		// last mark as its score it would never be the oldest.
		h.dirty("hot")
		for i := range 30 {
			h.version[fmt.Sprint("cold", i)] = 2 + i/2
			h.dirty(fmt.Sprint("cold", i))
		}
		for range 5 {
			for range 10 {
				h.dirty("hot")
			}
			b := h.reserve(1)
			if _, ok := b.saw["hot"]; ok {
				h.work(b, "hot")
				h.commit(b, "hot")
				return h.finish2()
			}
			for m := range b.saw {
				h.work(b, m)
				h.commit(b, m)
			}
		}
		return errors.New("starved: the hot document was not among the first five batches")
	}},
}

// finish2 is finish for more documents than one reserve of it takes.
func (h *hand) finish2() error {
	for range 10 {
		b := h.reserve(10)
		for m := range b.saw {
			h.work(b, m)
			h.commit(b, m)
		}
	}
	return h.finish()
}

// protections are the safeguards that keep the histories from forgetting, and how to take
// each out.
var protections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{
		"commit compares the token with the last fold", "if scores[i] and number and tonumber(number) <= covered then", "if scores[i] then",
		[]string{"second reserve before commit", "two consumers", "zombie", "zombie of an Ick that was deleted", "a foreign consumer's reservation"},
	},
	{
		"the newest token is the only short cut", "if covered ~= seq or known ~= reserved or failing > 0 then", "if false then",
		[]string{"second reserve before commit", "two consumers", "zombie"},
	},
	{
		"the short cut is for known members only", "covered ~= seq or known ~= reserved", "covered ~= seq",
		[]string{"a foreign consumer's reservation"},
	},
	{
		"unknown members are adopted when handed out", "if #entries > 0 and known ~= reserved then", "if false then",
		[]string{"a foreign consumer's reservation"},
	},
	{
		"a token is one of this Ick's reservations", "if string.find(tokens, ' ' .. ARGV[1] .. ' ', 1, true) then", "if true then",
		[]string{"zombie of an Ick that was deleted", "failover to a clock that is behind", "failover that lost several reservations"},
	},
	{
		"folds of lost reservations are forgotten", "redis.call('UNLINK', folds)", "",
		[]string{"lost counters"},
	},
	{
		"a fold writes down its number", "known = known + redis.call('HSET', folds, unpack(numbers))", "",
		[]string{"second reserve before commit"},
	},
	{
		"park compares the token with the last fold", "if score and number and tonumber(number) <= covered then", "if score then",
		[]string{"parked with an old token"},
	},
	{
		"producers leave the consumer set alone", "if redis.call('ZADD', pset, 'LT', 'CH', marks[i], marks[i + 1]) == 1 then",
		"local set = redis.call('ZSCORE', prefix .. 'cset', marks[i + 1]) and prefix .. 'cset' or pset\n" +
			"if redis.call('ZADD', set, 'LT', 'CH', marks[i], marks[i + 1]) == 1 then",
		[]string{"dirtied in flight again and again"},
	},
	{
		"the lower score wins", "'ZADD', pset, 'LT', 'CH', marks[i]", "'ZADD', pset, 'CH', marks[i]",
		[]string{"the oldest mark leads"},
	},
}

func play(t *testing.T, h history, scripts *script.Library) error {
	t.Helper()
	k := open(t, Config{})
	useScripts(k, scripts)
	return h.play(&hand{t: t, k: k, version: map[string]int{}, processed: map[string]int{}})
}

// TestNeverForgets plays the ways in which the gem forgets marks or starves them
// (I9 in docs/DEFECTS.md), and some of our own.
func TestNeverForgets(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, h, library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				i := slices.IndexFunc(histories, func(h history) bool { return h.name == name })
				if err := play(t, histories[i], scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}

// evalsha matches the script calls of an Ick.
func evalsha(cmd []string) bool { return redistest.Named("EVALSHA", "EVALSHA_RO")(cmd) }

// proxied returns an Ick behind a fault proxy, its scripts loaded.
func proxied(t *testing.T, cfg Config) (*Ick, *redistest.Proxy) {
	t.Helper()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	k := openOn(t, proxy.Client(t), redistest.Name(t), cfg)
	scripttest.Load(t, k.run.Client, k.run.Scripts)
	return k, proxy
}

// TestLostRepliesAreMadeGood loses the reply of each operation after the server
// did the work. The library sends it again: nothing is forgotten, and the answer
// is the one that was lost.
func TestLostRepliesAreMadeGood(t *testing.T) {
	t.Parallel()
	k, proxy := proxied(t, Config{})
	ctx := t.Context()
	lose := func() {
		t.Helper()
		proxy.DropReply(evalsha)
	}
	lost := 0
	check := func() {
		t.Helper()
		if lost++; proxy.Dropped() != lost {
			t.Fatalf("replies lost = %d, want %d", proxy.Dropped(), lost)
		}
	}

	lose()
	wantAdd(t, k, "a1 b2 c3", 0, 0) // the lost reply counted them
	check()
	lose()
	token := wantReserve(t, k, 2, "a1 b2")
	check()
	wantAdd(t, k, "a9", 1, 0)
	lose()
	token = wantExchange(t, k, token, "a b", 2, 2, 0, "c3 a9")
	check()
	wantAdd(t, k, "a5", 1, 0)
	wantReserve(t, k, 3, "c3 a5")
	lose()
	wantCommit(t, k, token, "a c", 1, 1) // a was folded again
	check()
	wantAdd(t, k, "d7", 1, 0)
	token = wantReserve(t, k, 2, "a5 d7")
	lose()
	if n, err := k.park(ctx, token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"d"}); err != nil || n != 0 {
		t.Fatalf("park = %d, %v, want the second run to find nothing", n, err)
	}
	check()
	lose()
	if n, err := k.Retry(ctx, "d"); err != nil || n != 1 {
		t.Fatalf("retry = %d, %v, want the first run's answer", n, err)
	}
	check()
	token = wantReserve(t, k, 2, "a5 d7")
	lose()
	wantCommit(t, k, token, "a d", 2, 0)
	check()
	lose()
	if n, err := k.Delete(ctx); err != nil || n != 0 {
		t.Fatalf("delete = %d, %v, want the second run to find nothing", n, err)
	}
	check()
}

// TestLostReplyWithoutLane shows why there is a lane: without it a
// repeated commit claims that nothing could go.
func TestLostReplyWithoutLane(t *testing.T) {
	t.Parallel()
	k, proxy := proxied(t, Config{})
	k.run.Scripts = scripttest.Without(t, library, "if answered then", "if false then")
	scripttest.Load(t, k.run.Client, k.run.Scripts)
	wantAdd(t, k, "a1", 1, 0)
	token := wantReserve(t, k, 1, "a1")
	proxy.DropReply(evalsha)
	wantCommit(t, k, token, "a", 0, 0) // a lie, that the lane prevents
}

// TestExchangeExecutedTwice is the gem's worst case: the reply of an exchange is
// lost, and with it the new batch. A repeat must not commit members that no consumer
// received.
func TestExchangeExecutedTwice(t *testing.T) {
	t.Parallel()
	play := func(scripts *script.Library) error {
		k := open(t, Config{})
		useScripts(k, scripts)
		h := &hand{t: t, k: k, version: map[string]int{}, processed: map[string]int{}}
		h.dirty("a")
		b := h.reserve(1)
		h.work(b, "a")
		h.dirty("a")
		for range 2 { // not the library's repeat but a caller's, with another id
			if _, _, err := k.Exchange(t.Context(), b.token, []string{"a"}, 1); err != nil {
				t.Fatal(err)
			}
		}
		return h.finish()
	}
	if err := play(library); err != nil {
		t.Error(err)
	}
	if err := play(scripttest.Without(t, library, "if covered ~= seq or known ~= reserved or failing > 0 then", "if false then")); err == nil {
		t.Error("nothing is forgotten without the tokens: the test shows nothing")
	}
}

// refusedAdds are arguments that a producer in another language may send wrongly. The first mark of
// each is right, so a check that comes too late leaves it behind.
var refusedAdds = map[string][]string{
	"two scores without a member": {"1", "a", "2", "b", "x"}, // 'x' is in the place of folded
	"folded that is no number":    {"1", "a", "many"},
	"folded below 0":              {"1", "a", "2", "b", "-5"},
	"too many marks":              slices.Repeat([]string{"1", "a"}, chunk+1),
}

// badScores are texts of which some are numbers to Lua, and none is a score to every server.
var badScores = []string{
	"nan", "-nan", "NaN", "nan(1)", "1/3", "", "x", "1e", " 1", "1 ", "\t1", "1\n", "1\x00", "1\x002", "1e999", "-1e999", "1_000", "1,5", "0x", "--1", "+-1",
	"١", "ch", "GT", "incr", "now ",
}

// A program that sends scripts itself may send scores that Add would refuse. The script refuses the
// whole call (I4 in docs/DEFECTS.md).
func TestScriptRefusesScoresWhole(t *testing.T) {
	t.Parallel()
	if err := refusesWhole(t, library); err != nil {
		t.Error(err)
	}
}

// TestScoresAreCheckedFirst takes the check out: then a call is partly applied.
func TestScoresAreCheckedFirst(t *testing.T) {
	t.Parallel()
	err := refusesWhole(t, scripttest.Without(t, library, "redis.call('ZADD', prefix .. 'none', 'XX', '0', '', unpack(marks, 1, last))", ""))
	if err == nil {
		t.Error("the calls are whole without the check: the test shows nothing")
	}
}

// refusesWhole sends wrong calls of add, to an Ick that exists and to one that does not, and returns
// an error if one was not refused or left something behind.
func refusesWhole(t *testing.T, scripts *script.Library) error {
	t.Helper()
	calls := maps.Clone(refusedAdds)
	for _, bad := range badScores {
		calls[fmt.Sprintf("the score %q last", bad)] = []string{"0", "first", "1", "a", bad, "b"}
		calls[fmt.Sprintf("the score %q in the middle", bad)] = []string{"0", "first", bad, "a", "2", "b", "7"}
		calls[fmt.Sprintf("the score %q alone", bad)] = []string{bad, "a"}
	}
	var wrong []error
	for _, exists := range []bool{true, false} {
		k := open(t, Config{})
		useScripts(k, scripts)
		if exists {
			wantAdd(t, k, "old1", 1, 0)
		}
		before := dump(t, k)
		for what, args := range calls {
			_, err := k.call(t.Context(), "add", args...)
			if err == nil {
				wrong = append(wrong, fmt.Errorf("%s: no error", what))
			}
			if diff := cmp.Diff(before, dump(t, k)); diff != "" {
				return errors.Join(append(wrong, fmt.Errorf("%s: a refused call changed the Ick (-before +after):\n%s", what, diff))...)
			}
		}
		wantAdd(t, k, "a1", 1, 0)
	}
	return errors.Join(wrong...)
}

// TestScoresOfOthers adds the scores that other languages print.
func TestScoresOfOthers(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	for i, score := range []string{"1", "-1", "1.5", "1e3", "1E3", "1.7952264e+09", "inf", "-inf", "0", "-0", "1795226400.123456", "now"} {
		for _, args := range [][]string{{score, fmt.Sprint("single ", i)}, {score, fmt.Sprint("one ", i), score, fmt.Sprint("two ", i)}} {
			if _, err := k.call(t.Context(), "add", args...); err != nil {
				t.Errorf("the score %q: %v", score, err)
			}
		}
	}
}

// TestFoldsAreCounted: an add after a quiet moment counts at once, and folds held back in
// a burst are counted later.
func TestFoldsAreCounted(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	for range 50 {
		wantAdd(t, k, "a2", 0, 0)
	}
	redistest.Eventually(t, "all folds but this one are counted", func() bool {
		wantAdd(t, k, "a2", 0, 0)
		s, err := k.Stats(t.Context())
		return err == nil && s.Counters.Folded >= 50 && s.Counters.New == 1
	})
	other := openOn(t, k.run.Client, k.name, Config{})
	before, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantAdd(t, other, "a2", 0, 0)
	after, err := k.Stats(t.Context())
	want(t, "folds after one lonely add", after.Counters.Folded, before.Counters.Folded+1, err)
}
