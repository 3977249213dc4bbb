package fairqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

const (
	// callTimeout bounds a shared call, which no single caller's context may end.
	callTimeout = 10 * time.Second

	// aloneBytes is from how many bytes on a write shares no call: whoever writes little
	// does not wait for it.
	aloneBytes = 64 << 10
)

// dispatcher makes the calls of all Queues of one name on one client, however many there
// are and whatever names their readers have. Writes share calls with writes, reads and
// settlements with each other: a full server refuses the first and not the second.
//
//	Write ──▶ writes ──▶ script write
//	Read, Ack, Nack, Consume ──▶ works ──▶ script work ──┬──▶ messages, verdicts
//	   ▲                                                 │
//	   └──────────────── sleepers ◀── nothing is there ──┘
type dispatcher struct {
	name   string
	run    script.Runner
	writes *batch.Batcher[writeRequest, []Written]
	works  *batch.Batcher[workRequest, workAnswer]

	sleepers sleepers
}

// dispatchers are those in use, by client and name. It is a package's variable because
// Queues on one client have nothing else in common. One that no Queue uses goes.
var dispatchers struct {
	mu sync.Mutex
	of map[dispatcherKey]weak.Pointer[dispatcher]
}

type dispatcherKey struct {
	client rueidis.Client
	name   string
}

func dispatcherOf(client rueidis.Client, name string) *dispatcher {
	if !reflect.ValueOf(client).Comparable() {
		return newDispatcher(client, name)
	}
	key := dispatcherKey{client, name}
	dispatchers.mu.Lock()
	defer dispatchers.mu.Unlock()
	if d := dispatchers.of[key].Value(); d != nil {
		return d
	}
	if dispatchers.of == nil {
		dispatchers.of = map[dispatcherKey]weak.Pointer[dispatcher]{}
	}
	d := newDispatcher(client, name)
	dispatchers.of[key] = weak.Make(d)
	runtime.AddCleanup(d, func(key dispatcherKey) {
		dispatchers.mu.Lock()
		defer dispatchers.mu.Unlock()
		if dispatchers.of[key].Value() == nil {
			delete(dispatchers.of, key)
		}
	}, key)
	return d
}

func newDispatcher(client rueidis.Client, name string) *dispatcher {
	d := &dispatcher{name: name, run: script.Runner{Client: client, Scripts: library}}
	d.sleepers.d = d
	d.writes = batch.New(batch.Config[writeRequest, []Written]{
		Call: func(ctx context.Context, requests []writeRequest) ([][]Written, error) {
			return d.write(script.Detached(reqid.With(ctx, "")), requests)
		},
		Size:     func(r writeRequest) (int, int) { return r.size(), r.bytes },
		Together: writeTogether,
		MaxItems: page,
	})
	d.works = batch.New(batch.Config[workRequest, workAnswer]{
		Call: func(ctx context.Context, requests []workRequest) ([]workAnswer, error) {
			return d.work(script.Detached(reqid.With(ctx, "")), requests, false)
		},
		Size:      func(r workRequest) (int, int) { return r.size(), 0 },
		Together:  workTogether,
		MaxItems:  page,
		Abandoned: func(ctx context.Context, r workRequest, a workAnswer) { r.q.handBack(ctx, a.messages) },
	})
	return d
}

// settlement is what becomes of one delivery.
type settlement struct {
	receipt receipt
	verb    string // a handled, n failed, d is to die, u nobody was there
	arg     string // of n, d and u: the delay in milliseconds, a space and the reason
}

func settled(r receipt, verb string, delay time.Duration, reason string) settlement {
	s := settlement{receipt: r, verb: verb}
	if verb != "a" {
		s.arg = millis(delay) + " " + reason
	}
	return s
}

func (s settlement) handled() bool { return s.verb == "a" }

// workRequest settles deliveries and asks for messages, or one of both.
type workRequest struct {
	q          *Queue
	settle     []settlement
	consume    bool // the messages are for handlers of Consume
	max        int
	visibility time.Duration
	sleeps     bool // the caller waits if nothing is there
}

// size is what the request costs, in messages that are read.
func (r workRequest) size() int {
	n := r.max
	for _, s := range r.settle {
		if n++; !s.handled() {
			n++
		}
	}
	return n
}

// workAnswer is what becomes of it.
type workAnswer struct {
	verdicts []int64 // of each settlement: 0 stale, 1 done, 2 dead
	err      error   // why what was handled is not acknowledged and nothing is fetched
	messages []Message
	paused   bool
	again    bool          // nothing was found, and the caller is to ask again at once
	pause    time.Duration // until something is due; negative when nobody knows
}

// workTogether reports whether a request goes with others: those that take messages do so
// in one way.
func workTogether(others []workRequest, r workRequest) bool {
	if others[0].q.cfg.MaxAttempts != r.q.cfg.MaxAttempts {
		return false
	}
	for _, other := range others {
		if r.max > 0 && other.max > 0 {
			return other.consume == r.consume && other.visibility == r.visibility
		}
	}
	return true
}

// work serves several requests with one call, and with another one for what was not
// handled. Slept says that it is for those who slept.
func (d *dispatcher) work(ctx context.Context, requests []workRequest, slept bool) ([]workAnswer, error) {
	ctx, cancel := script.Within(ctx, callTimeout)
	defer cancel()
	answers := make([]workAnswer, len(requests))
	var acks []string
	most, others := 0, 0
	for i, r := range requests {
		answers[i] = workAnswer{verdicts: make([]int64, len(r.settle)), pause: -1}
		most += r.max
		for _, s := range r.settle {
			if s.handled() {
				acks = append(acks, string(s.receipt))
			} else {
				others++
			}
		}
	}
	if others > 0 {
		if err := d.giveBack(ctx, requests, answers, others); err != nil {
			return nil, err
		}
	}
	if most == 0 && len(acks) == 0 {
		return answers, nil
	}
	err := d.fetch(ctx, requests, answers, acks, most, slept)
	if err == nil || others == 0 {
		return answers, err
	}
	for i, r := range requests { // what was given back is
		if r.max > 0 || slices.ContainsFunc(r.settle, settlement.handled) {
			answers[i].err = err
		}
	}
	return answers, nil
}

// do shares a call with others.
func (d *dispatcher) do(ctx context.Context, request workRequest) (workAnswer, error) {
	a, err := d.works.Do(ctx, request)
	if err == nil {
		err = a.err
	}
	return a, err
}

// giveBack settles what was not handled.
func (d *dispatcher) giveBack(ctx context.Context, requests []workRequest, answers []workAnswer, n int) error {
	args := make([]string, 0, 1+3*n)
	args = append(args, strconv.Itoa(requests[0].q.cfg.MaxAttempts))
	for _, r := range requests {
		for _, s := range r.settle {
			if !s.handled() {
				args = append(args, string(s.receipt), s.verb, s.arg)
			}
		}
	}
	reply, err := d.run.Run(ctx, "settle", baseKey(d.name), args...)
	if err != nil {
		return err
	}
	verdicts := reply.Text()
	if err := reply.Err(); err != nil {
		return err
	}
	return deal(requests, answers, verdicts, n, func(s settlement) bool { return !s.handled() })
}

// deal gives each settlement of some kind its verdict.
func deal(requests []workRequest, answers []workAnswer, verdicts string, n int, some func(settlement) bool) error {
	if len(verdicts) != n {
		return fmt.Errorf("a script of fairqueue answered %d verdicts for %d receipts", len(verdicts), n)
	}
	at := 0
	for i, r := range requests {
		for j, s := range r.settle {
			if some(s) {
				answers[i].verdicts[j] = int64(verdicts[at] - '0')
				at++
			}
		}
	}
	return nil
}

// fetch acknowledges what was handled and takes messages.
func (d *dispatcher) fetch(ctx context.Context, requests []workRequest, answers []workAnswer, acks []string, most int, slept bool) error {
	q := requests[0].q
	how, visibility, sleeps := "r", VisibilityDefault, false
	for _, r := range requests {
		if r.max > 0 {
			visibility, sleeps = r.visibility, sleeps || r.sleeps
			if r.consume {
				how = "c"
			}
		}
	}
	counted, counts := d.sleepers.begin(slept, sleeps)
	args := make([]string, 0, 6+len(acks))
	args = append(args, how, strconv.Itoa(most), millis(visibility), flag(counted), flag(counts), letters())
	reply, err := d.run.Run(ctx, "work", baseKey(d.name), append(args, acks...)...)
	if err == nil {
		d.sleepers.exists(!reply.None())
	}
	if err != nil || reply.None() {
		d.sleepers.end(counted, false)
		return err
	}
	q.entry.Touch()
	now, paused, due, pause, verdicts := reply.MilliTime(), reply.Bool(), reply.Bool(), reply.Millis(), reply.Text()
	var messages []Message
	for reply.More() {
		raw, stored := receipt(reply.Text()), reply.Text()
		msg, err := delivered(raw, stored, now)
		if err != nil {
			q.bury(raw, err)
			continue
		}
		messages = append(messages, msg)
	}
	d.sleepers.end(counted, counts && len(messages) == 0 && !due)
	if err := reply.Err(); err != nil {
		return err
	}
	if err := deal(requests, answers, verdicts, len(acks), settlement.handled); err != nil {
		return err
	}
	if due {
		if _, err := d.run.Run(ctx, "tend", baseKey(d.name), strconv.Itoa(q.cfg.MaxAttempts)); err != nil && len(messages) == 0 {
			return err // who has messages is not kept from them: the next call tries again
		}
	}
	for i := range answers {
		answers[i].paused, answers[i].again, answers[i].pause = paused, due && !paused && len(messages) == 0, pause
	}
	divide(requests, answers, messages)
	return nil
}

// divide deals messages out, one to each reader in turn.
func divide(requests []workRequest, answers []workAnswer, messages []Message) {
	for len(messages) > 0 {
		dealt := false
		for i, r := range requests {
			if len(messages) > 0 && len(answers[i].messages) < r.max {
				answers[i].messages = append(answers[i].messages, messages[0])
				messages, dealt = messages[1:], true
			}
		}
		if !dealt {
			return // more than anybody asked for, which a script does not send
		}
	}
}

// letters returns eight random letters, which tell two deliveries of a message apart when
// the server's clock went back in between.
func letters() string {
	return fmt.Sprintf("%08X", rand.Uint32())
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// handBackTimeout is for how long a message is tried to be handed back.
const handBackTimeout = 5 * time.Second

// handBack returns messages for which nobody is there any more.
func (q *Queue) handBack(ctx context.Context, messages []Message) {
	if len(messages) == 0 {
		return
	}
	settle := make([]settlement, len(messages))
	for i, m := range messages {
		settle[i] = settled(m.receipt(), "u", 0, "")
	}
	ctx, cancel := context.WithTimeout(reqid.With(context.WithoutCancel(ctx), ""), handBackTimeout)
	defer cancel()
	for some := range slices.Chunk(settle, costly) {
		if _, err := q.shared.work(ctx, []workRequest{{q: q, settle: some}}, false); err != nil {
			q.cfg.Logger.WarnContext(ctx, "messages could not be handed back and come again when they are visible",
				"queue", q.name, "messages", len(some), "error", err)
		}
	}
}

// bury has a message die that cannot be read.
func (q *Queue) bury(r receipt, why error) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
		defer cancel()
		q.cfg.Logger.ErrorContext(ctx, "a message cannot be read and is dead", "queue", q.name, "error", why)
		settle := []settlement{settled(r, "d", 0, why.Error())}
		if _, err := q.shared.work(ctx, []workRequest{{q: q, settle: settle}}, false); err != nil {
			q.cfg.Logger.WarnContext(ctx, "a message that cannot be read comes again", "queue", q.name, "error", err)
		}
	}()
}
