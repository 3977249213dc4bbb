package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// Several clients call at once, over a network that loses replies, and note their
// calls, the replies, and when. Then porcupine looks for an order of the calls,
// each at one moment between its question and its reply, in which a lease as
// simple as state below would have replied the same. If there is none, the lease
// is broken.
//
// A deadline is a moment of the server's clock, which no caller sees. So no
// deadline comes by itself here; a client ends the lease, and that is a call like
// the others.

// question is one call. The id stands for the token of the caller.
type question struct{ call, name, id string }

// reply is the answer to a question.
type reply struct {
	lost  bool // the outcome is unknown; it may still be executed
	ok    bool // acquired, refreshed, released; held, for a show
	id    string
	fence int64 // that of the last acquisition; its holder has the id
}

// state is a lease in the plainest words.
type state struct {
	holder   string // none when empty
	released string // who released it last
	fence    int64  // the last one that a caller was told
	untold   bool   // whether there was an acquisition after it
}

// tell reports whether a caller may be told this fence of the last acquisition, and the state after it.
func (s state) tell(fence int64) (bool, state) {
	if fence < s.fence || (fence > s.fence) != s.untold {
		return false, s
	}
	s.fence, s.untold = fence, false
	return true, s
}

// step reports whether a lease in state s could give this reply, and its state
// after it. A call whose reply was lost could always be executed, if only after
// everything else.
func (s state) step(q question, r reply) (bool, state) {
	switch q.call {
	case "acquire":
		switch {
		case !r.ok && !r.lost:
			if s.holder == "" || s.holder == q.id || s.holder != r.id {
				return false, s
			}
			return s.tell(r.fence)
		case s.holder == "":
			if !r.lost && r.fence <= s.fence {
				return false, s
			}
			s.holder, s.fence, s.untold = q.id, max(s.fence, r.fence), r.lost
			return true, s
		case r.lost:
			return true, s
		case s.holder != q.id:
			return false, s
		}
		return s.tell(r.fence)
	case "refresh":
		if !r.ok || s.holder != q.id {
			return !r.ok && s.holder != q.id, s
		}
		return s.tell(r.fence)
	case "release":
		possible := r.lost || r.ok == (s.holder == q.id || s.released == q.id)
		if s.holder == q.id {
			s.holder, s.released = "", q.id
		}
		return possible, s
	case "show":
		if r.ok != (s.holder != "") || r.id != s.holder {
			return false, s
		}
		return s.tell(r.fence)
	}
	s.holder = "" // the deadline
	return true, s
}

// model describes state to porcupine. The leases of different names have nothing
// to do with each other.
var model = porcupine.Model{
	Partition: func(calls []porcupine.Operation) [][]porcupine.Operation {
		byName := map[string][]porcupine.Operation{}
		for _, c := range calls {
			name := c.Input.(question).name
			byName[name] = append(byName[name], c)
		}
		var parts [][]porcupine.Operation
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(s, q, r any) (bool, any) { return s.(state).step(q.(question), r.(reply)) },
}

// lostTries counts the tries of one call that got no answer. The library tries
// again, so the call may be executed once more for each of them.
type lostTries struct{ n atomic.Int64 }

type lostTriesKey struct{}

// triesHook counts them.
type triesHook struct{}

func (triesHook) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	return ctx, func(err error) {
		if lost, ok := ctx.Value(lostTriesKey{}).(*lostTries); ok && err != nil {
			lost.n.Add(1)
		}
	}
}

// claim is a token and the id that the histories have for it.
type claim struct{ id, token string }

// deadline lets the deadline of a lease have come long ago.
const deadline = `local v = redis.call('GET', KEYS[1])
	if v then redis.call('SET', KEYS[1], (string.gsub(v, '^(3 %d+ )%d+', '%10000000000001', 1)), 'KEEPTTL') end
	return 1`

// caller is one client. It calls one after the other.
type caller struct {
	id     string
	l      *Locker
	direct rueidis.Client // past the proxy
	began  time.Time
	random *rand.Rand
	claims map[string][]claim // by name, the last one last
	calls  []porcupine.Operation
}

// note keeps a call.
func (c *caller) note(asked time.Duration, q question, r reply) {
	answered := time.Since(c.began).Nanoseconds()
	if r.lost {
		answered = math.MaxInt64
	}
	c.calls = append(c.calls, porcupine.Operation{Input: q, Call: asked.Nanoseconds(), Output: r, Return: answered})
}

// act makes one call of some kind on the lease of that name.
func (c *caller) act(ctx context.Context, name string) error {
	lost := &lostTries{}
	ctx = context.WithValue(ctx, lostTriesKey{}, lost)
	if c.random.IntN(6) == 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.random.IntN(400))*time.Microsecond)
		defer cancel()
	}
	fresh := claim{id: fmt.Sprintf("%s.%d", c.id, len(c.calls))}
	mine, owned := fresh, c.claims[name]
	if len(owned) > 0 {
		mine = owned[len(owned)-1]
		if c.random.IntN(4) == 0 {
			mine = owned[c.random.IntN(len(owned))]
		}
	}
	q := question{name: name, id: mine.id}
	asked := time.Since(c.began)
	var r reply
	var err error
	switch dice := c.random.IntN(20); {
	case dice < 8 || len(owned) == 0:
		q.call = "acquire"
		if dice >= 2 { // otherwise once more with the same token
			mine, q.id = fresh, fresh.id
		}
		if dice >= 5 {
			mine.token = mine.id // otherwise the library chooses one
		}
		r, mine.token, err = c.acquire(ctx, name, mine, time.Duration(dice%2)*5*time.Millisecond)
		if mine.token != "" {
			c.claims[name] = append(c.claims[name], mine)
		} else if err != nil && lost.n.Load() > 0 { // the library gives it back
			defer c.note(asked, question{call: "release", name: name, id: q.id}, reply{lost: true})
		}
	case dice < 11:
		q.call = "refresh"
		var info Info
		info, err = c.l.Refresh(ctx, name, mine.token, long)
		r = reply{ok: err == nil, fence: info.Fence}
	case dice < 16:
		q.call = "release"
		err = c.l.Release(ctx, name, mine.token)
		r.ok = err == nil
	case dice < 18:
		q.call = "show"
		var info Info
		info, err = c.l.Show(ctx, name)
		r = reply{ok: info.Held, id: info.Metadata, fence: info.Fence}
	default:
		q.call = "deadline"
		err = c.direct.Do(context.WithoutCancel(ctx), c.direct.B().Eval().Script(deadline).Numkeys(1).Key(baseKey(name)).Build()).Error()
	}
	if q.call == "acquire" || q.call == "release" { // the others change nothing
		for range lost.n.Load() {
			c.note(asked, q, reply{lost: true})
		}
	}
	switch {
	case err == nil, errors.Is(err, ErrHeld), errors.Is(err, ErrLost):
		c.note(asked, q, r)
	case !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", q.call, err)
	}
	return nil
}

// acquire returns the answer and the token, if it is known.
func (c *caller) acquire(ctx context.Context, name string, mine claim, wait time.Duration) (reply, string, error) {
	lease, err := c.l.Acquire(ctx, name, long, AcquireConfig{Token: mine.token, Metadata: mine.id, Wait: wait})
	if held, ok := Holder(err); ok {
		return reply{id: held.Metadata, fence: held.Fence}, mine.token, err
	}
	if err != nil {
		return reply{}, mine.token, err
	}
	return reply{ok: true, fence: lease.Fence}, lease.Token, nil
}

// stage is the setting of recorded histories: a server, a lossy network, clients.
type stage struct {
	lockers []*Locker
	direct  rueidis.Client
	proxy   *redistest.Proxy
}

func newStage(t *testing.T, scripts *script.Library) *stage {
	t.Helper()
	server := redistest.Shared(t)
	st := &stage{proxy: redistest.NewProxy(t, server.Addr()), direct: server.Client(t)}
	for range 4 {
		l := openOn(t, st.proxy.Client(t), Config{Hooks: []millrace.Hook{triesHook{}}})
		l.run.Scripts = scripts
		scripttest.Load(t, l.run.Client, l.run.Scripts)
		st.lockers = append(st.lockers, l)
	}
	random := rand.New(rand.NewPCG(1, 2))
	st.proxy.DropReplyWhen(func(cmd []string) bool { return evalsha(cmd) && random.IntN(12) == 0 })
	return st
}

// record has the clients call at random, all at once, and returns the calls.
func (st *stage) record(t *testing.T, seed uint64) []porcupine.Operation {
	t.Helper()
	names := []string{redistest.Name(t), redistest.Name(t)}
	began := time.Now()
	callers := make([]*caller, len(st.lockers))
	for i, l := range st.lockers {
		callers[i] = &caller{
			id: string(rune('a' + i)), l: l, direct: st.direct, began: began,
			random: rand.New(rand.NewPCG(seed, uint64(i))), claims: map[string][]claim{},
		}
	}
	var all sync.WaitGroup
	for _, c := range callers {
		all.Go(func() {
			for range 10 {
				if err := c.act(t.Context(), names[c.random.IntN(len(names))]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	var calls []porcupine.Operation
	for i, c := range callers {
		for _, call := range c.calls {
			call.ClientId = i
			calls = append(calls, call)
		}
	}
	return calls
}

// checkTimeout is how long porcupine may take for one history.
const checkTimeout = 20 * time.Second

// TestHistoriesAreLinearizable checks random histories of concurrent calls with lost replies against a lock.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	st := newStage(t, library)
	seen := map[string]int{}
	for seed := range uint64(12) {
		calls := st.record(t, seed)
		if got := porcupine.CheckOperationsTimeout(model, calls, checkTimeout); got != porcupine.Ok {
			t.Fatalf("history %d is %s:\n%s", seed, got, describe(calls))
		}
		for _, c := range calls {
			r := c.Output.(reply)
			seen[fmt.Sprintf("%s %v, lost %v", c.Input.(question).call, r.ok, r.lost)]++
		}
	}
	// The histories say something only if all of this was in them.
	for _, call := range []string{
		"acquire true, lost false", "acquire false, lost false", "acquire false, lost true",
		"release true, lost false", "release false, lost false", "release false, lost true",
		"refresh true, lost false", "refresh false, lost false", "show true, lost false", "show false, lost false",
	} {
		if seen[call] == 0 {
			t.Errorf("no call of the kind %q: %v", call, seen)
		}
	}
}

// TestSabotageIsNotLinearizable takes protections out and expects that no order
// of the calls explains the replies to the clients.
func TestSabotageIsNotLinearizable(t *testing.T) {
	t.Parallel()
	for _, s := range []struct{ name, old, replacement string }{
		{"acquire ignores the holder", "if held then", "if held and owner == ARGV[1] then"},
		{"refresh ignores the token", "if not held or owner ~= ARGV[1] then", "if not held then"},
		{"refresh ignores the deadline", "if not held or owner ~= ARGV[1] then", "if owner ~= ARGV[1] then"},
		{"release ignores the token", "if owner ~= ARGV[1] or now >= deadline then", "if now >= deadline then"},
		{"release ignores the deadline", "if owner ~= ARGV[1] or now >= deadline then", "if owner ~= ARGV[1] then"},
		{"a release frees nothing", "released, rsize = owner, size", "held = now < deadline"},
		{"the fence stays", "  stamp = string.format('%.0f', fence + 1)\nend", "end\nif found then stamp = fence end"},
		{"a repeated acquire is refused", "owner == ARGV[1] and 1 or 0", "0"},
		{"a release is forgotten", "local own = released == ARGV[1]", "local own = false"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, scripttest.Without(t, library, s.old, s.replacement))
			for seed := range uint64(300) { // on a busy machine few calls overlap
				switch porcupine.CheckOperationsTimeout(model, st.record(t, seed), checkTimeout) {
				case porcupine.Illegal:
					return
				case porcupine.Unknown:
					t.Fatalf("history %d takes too long to check", seed)
				case porcupine.Ok: // this one did not need the protection
				}
			}
			t.Error("every history is linearizable without the protection")
		})
	}
}

// describe lists the calls in the order in which they were made.
func describe(calls []porcupine.Operation) string {
	slices.SortFunc(calls, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&text, "client %d, %d to %d ns: %+v = %+v\n", c.ClientId, c.Call, c.Return, c.Input, c.Output)
	}
	return text.String()
}
