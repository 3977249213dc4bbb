package fairqueue

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/batch"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// callTimeout bounds a shared call, which no context of a caller ends.
	callTimeout = 10 * time.Second

	// aloneBytes is the size from which a write shares no call, so that small ones do
	// not wait for it.
	aloneBytes = 64 << 10

	// handBackTimeout bounds attempts to hand messages back.
	handBackTimeout = 5 * time.Second
)

// dispatcher makes the calls of all Queues of one name on one client. Writes share calls
// with writes, and reads and settlements with each other: a full server refuses the first and
// not the second.
//
//	Write ──▶ writes ──▶ script write
//	Read, Ack, Nack, Consume ──▶ works ──▶ scripts settle, work ──┬──▶ messages, verdicts
//	   ▲                                                          │
//	   └───────────────── sleepers ◀── nothing is there ──────────┘
type dispatcher struct {
	name   string
	run    script.Runner
	writes *batch.Batcher[writeRequest, writeAnswer]
	works  *batch.Batcher[workRequest, workAnswer]

	general      general // of reads
	settings     atomic.Pointer[settings]
	generalWrite general
	sleepers     sleepers
	paused       atomic.Bool // as of the last read
	limits       atomic.Bool // whether limits count deliveries, as of the last general read
	workers      workers
	warned       sync.Map // schedules and entries that this process cannot read
}

// warn reports whether this is the first trouble with a schedule or an entry.
func (d *dispatcher) warn(about string) bool {
	_, before := d.warned.LoadOrStore(about, true)
	return !before
}

// dispatchers are the dispatchers in use, by client and name. They are global because Queues on
// one client share nothing else. One that no Queue uses is collected.
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
	d.sleepers.d, d.sleepers.sooner = d, make(chan struct{}, 1)
	d.writes = batch.New(batch.Config[writeRequest, writeAnswer]{
		Call: func(ctx context.Context, requests []writeRequest) ([]writeAnswer, error) {
			return d.write(script.Detached(reqid.With(ctx, "")), requests)
		},
		Size:     func(r writeRequest) (int, int) { return r.cost, r.bytes },
		Together: writeTogether,
		Changes:  func(writeRequest) bool { return true },
		MaxItems: callBudget,
	})
	d.works = batch.New(batch.Config[workRequest, workAnswer]{
		Call: func(ctx context.Context, requests []workRequest) ([]workAnswer, error) {
			return d.work(script.Detached(reqid.With(ctx, "")), requests, false)
		},
		Size:      func(r workRequest) (int, int) { return r.cost(), 0 },
		Together:  workTogether,
		MaxItems:  callBudget,
		FullItems: callBudget,
		Changes:   func(r workRequest) bool { return len(r.settle) > 0 },
		Abandoned: func(ctx context.Context, r workRequest, a workAnswer) { r.q.handBack(ctx, a.messages) },
	})
	return d
}

// workRequest settles deliveries, asks for messages, or both.
type workRequest struct {
	q          *Queue
	settle     []settlement
	reader     *registration // whose handlers the messages are for; nil for a reader without a name
	max        int           // messages, 0 to ask for none
	visibility time.Duration
	sleeps     bool // the caller waits if there is nothing
}

func (r workRequest) cost() int {
	n := 0
	if r.max > 0 {
		n = r.q.readCost() * r.max
	}
	for _, s := range r.settle {
		n += s.cost()
	}
	return n
}

// workAnswer is the answer to a workRequest.
type workAnswer struct {
	verdicts []int // of each settlement: 0 stale, 1 done, 2 dead
	err      error // why nothing was acknowledged and fetched, while the rest was settled
	messages []Message
	paused   bool
	quiet    bool          // no message waits for an acknowledgement
	again    bool          // there was nothing, and the caller asks again at once
	pause    time.Duration // until a message becomes due; negative if unknown
}

// nothing is the error of a read that found nothing.
func (a workAnswer) nothing() error {
	if a.paused {
		return ErrPaused
	}
	return ErrEmpty
}

// workTogether reports whether a request can share a call with others: all that ask for
// messages ask in the same way.
func workTogether(others []workRequest, r workRequest) bool {
	if others[0].q.cfg.MaxAttempts != r.q.cfg.MaxAttempts {
		return false
	}
	for _, other := range others {
		if r.max > 0 && other.max > 0 {
			return (other.reader == nil) == (r.reader == nil) && other.visibility == r.visibility
		}
	}
	return true
}

// do shares a call with others.
func (d *dispatcher) do(ctx context.Context, r workRequest) (workAnswer, error) {
	a, err := d.works.Do(ctx, r)
	if err == nil {
		err = a.err
	}
	return a, err
}

// settle is do for a request that only settles. Under a seed it has a call of its own,
// because a repeat must find its answer.
func (d *dispatcher) settle(ctx context.Context, r workRequest) (workAnswer, error) {
	if !reqid.Seeded(ctx) {
		return d.do(ctx, r)
	}
	answers, err := d.work(ctx, []workRequest{r}, false)
	if err != nil {
		return workAnswer{}, err
	}
	return answers[0], nil
}

// work serves several requests with one call of the script work, and one of settle for messages
// that were not handled. Slept means that the requests are those of sleepers.
func (d *dispatcher) work(ctx context.Context, requests []workRequest, slept bool) ([]workAnswer, error) {
	ctx, cancel := script.Within(ctx, callTimeout)
	defer cancel()
	answers := make([]workAnswer, len(requests))
	acks, most := []settlement(nil), 0
	back := []string{strconv.Itoa(requests[0].q.cfg.MaxAttempts)}
	for i, r := range requests {
		answers[i] = workAnswer{verdicts: make([]int, len(r.settle)), pause: -1}
		most += r.max
		for _, s := range r.settle {
			if s.handled() {
				acks = append(acks, s)
			} else {
				back = append(back, s.receipt.handle(), s.verb, s.arg)
			}
		}
	}
	settled := len(back) > 1
	if settled {
		reply, err := d.run.Run(ctx, "settle", baseKey(d.name), back...)
		if err != nil {
			return nil, err
		}
		verdicts := strings.Repeat("0", len(back)/3) // without a queue
		if !reply.None() {
			verdicts = reply.Text()
		}
		if err := deal(requests, answers, verdicts, false); err != nil {
			return nil, err
		}
	}
	if most == 0 && len(acks) == 0 {
		return answers, nil
	}
	err := d.fetch(ctx, requests, answers, acks, most, slept)
	if err == nil || !settled {
		return answers, err
	}
	for i, r := range requests {
		if r.max > 0 || slices.ContainsFunc(r.settle, settlement.handled) {
			answers[i].err = err
		}
	}
	return answers, nil
}

// deal gives the settlements that were handled, or those that were not, their verdicts.
func deal(requests []workRequest, answers []workAnswer, verdicts string, handled bool) error {
	at := 0
	for i, r := range requests {
		for j, s := range r.settle {
			if s.handled() != handled {
				continue
			}
			if at == len(verdicts) {
				return fmt.Errorf("a script of fairqueue answered %d verdicts, fewer than receipts", at)
			}
			answers[i].verdicts[j] = int(verdicts[at] - '0')
			at++
		}
	}
	return nil
}

// fetch acknowledges handled messages and takes messages.
func (d *dispatcher) fetch(ctx context.Context, requests []workRequest, answers []workAnswer, acks []settlement, most int, slept bool) error {
	q := requests[0].q
	o, sleeps := order{most: most, visibility: defaultVisibility, acks: acks}, false
	for _, r := range requests {
		if r.max > 0 {
			o.visibility, sleeps = r.visibility, sleeps || r.sleeps
		}
	}
	o.leaves, o.enters = d.sleepers.begin(slept, sleeps)
	var reply *taken
	err := errUnregistered
	for err == errUnregistered { //nolint:errorlint // take returns it as it is
		o.roll, o.only = taking(requests)
		if reply, err = d.take(ctx, o); err == errUnregistered { //nolint:errorlint // as above
			if failed := register(ctx, requests); failed != nil {
				err = failed
			}
			o.most = 0
			for _, r := range requests { // less if a reader has left
				o.most += r.max
			}
		}
	}
	if err == nil {
		d.sleepers.setAbsent(reply == nil)
		d.paused.Store(reply != nil && reply.paused)
	}
	if err != nil || reply == nil {
		d.sleepers.end(o.leaves, false)
		return err
	}
	q.entry.Touch()
	now, paused, due, pause, verdicts := reply.now, reply.paused, reply.due, reply.pause, reply.verdicts
	var messages []Message
	for _, item := range reply.items {
		raw, msg, err := delivered(item, now)
		if err != nil {
			q.moveToDead(raw, err)
			continue
		}
		messages = append(messages, msg)
	}
	d.sleepers.end(o.leaves, reply.entered)
	if err := deal(requests, answers, verdicts, true); err != nil {
		return err
	}
	if due {
		if _, err := q.tend(ctx, strconv.Itoa(q.cfg.MaxAttempts)); err != nil && len(messages) == 0 {
			return err // messages are delivered all the same; the next call tries again
		}
	}
	for i := range answers {
		answers[i].paused, answers[i].quiet, answers[i].again, answers[i].pause = paused, reply.quiet, due && !paused && len(messages) == 0, pause
	}
	divide(requests, answers, messages)
	for i, r := range requests {
		if r.reader != nil {
			r.reader.slots.saw(answers[i].messages)
		}
	}
	return nil
}

// divide deals messages out, one to each reader in turn.
func divide(requests []workRequest, answers []workAnswer, messages []Message) {
	for dealt := true; dealt && len(messages) > 0; {
		dealt = false
		for i, r := range requests {
			if len(messages) > 0 && len(answers[i].messages) < r.max {
				answers[i].messages = append(answers[i].messages, messages[0])
				messages, dealt = messages[1:], true
			}
		}
	}
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// handBack returns messages whose callers have gone. It counts as no attempt.
func (q *Queue) handBack(ctx context.Context, messages []Message) {
	if len(messages) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(reqid.With(context.WithoutCancel(ctx), ""), handBackTimeout)
	defer cancel()
	for some := range slices.Chunk(messages, heavyPage) {
		r := workRequest{q: q}
		for _, m := range some {
			r.settle = append(r.settle, settlement{m.receipt(), "u", settleArg(0, "")})
		}
		if _, err := q.shared.work(ctx, []workRequest{r}, false); err != nil {
			q.cfg.Logger.WarnContext(ctx, "messages could not be handed back; they come again after their visibility",
				"queue", q.name, "messages", len(some), "error", err)
		}
	}
}

// moveToDead makes a message that cannot be decoded dead.
func (q *Queue) moveToDead(r receipt, reason error) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), handBackTimeout)
		defer cancel()
		q.cfg.Logger.ErrorContext(ctx, "a message cannot be decoded and is dead", "queue", q.name, "error", reason)
		request := workRequest{q: q, settle: []settlement{{r, "d", settleArg(0, reason.Error())}}}
		if _, err := q.shared.work(ctx, []workRequest{request}, false); err != nil {
			q.cfg.Logger.WarnContext(ctx, "a message that cannot be decoded comes again", "queue", q.name, "error", err)
		}
	}()
}
