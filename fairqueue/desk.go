package fairqueue

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/wake"
)

const (
	// callsAtOnce is how many shared reads are under way at once.
	callsAtOnce = 2

	// callPatience bounds a shared read, which no single reader's context may
	// end.
	callPatience = 10 * time.Second

	// longestSleep is for how long a process that waits sleeps at most before it
	// looks again: a wake-up is best effort.
	longestSleep = time.Second

	// handBackPatience is for how long a message is tried to be handed back.
	handBackPatience = 5 * time.Second
)

// desk is where the readers of one process stand in line. Those that ask at the
// same time share a script call, and those for whom nothing is there share one
// sleep on one connection.
//
//	Read ──▶ asking ──▶ a shared read ──┬─▶ messages
//	           ▲                        ├─▶ nothing, and no time left: ErrEmpty
//	           │ woken, due, or 1 s     ▼
//	           └──────────────────── sleeping
type desk struct {
	q *Queue

	mu       sync.Mutex
	asking   []*reader
	sleeping []*reader
	begun    int  // shared reads, ever
	calls    int  // shared reads under way
	asleep   bool // somebody sleeps for all
	wake     context.CancelFunc
	pause    time.Duration // until something is due, when last asked; negative when nobody knows
}

// reader is one call of Read.
type reader struct {
	cfg   ReadConfig
	until time.Time // the end of its Block; zero for none
	since int       // how many shared reads had begun when it got in line
	gone  bool      // its context has ended
	done  chan answer
}

type answer struct {
	messages []Message
	err      error
}

func newDesk(q *Queue) *desk { return &desk{q: q, wake: func() {}} }

// ask returns messages for one call of Read.
func (d *desk) ask(ctx context.Context, cfg ReadConfig) ([]Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &reader{cfg: cfg, done: make(chan answer, 1)}
	if cfg.Block >= 0 {
		r.until = time.Now().Add(cfg.Block)
	}
	d.mu.Lock()
	r.since = d.begun
	d.asking = append(d.asking, r)
	d.callMore()
	d.mu.Unlock()
	select {
	case a := <-r.done:
		return a.messages, a.err
	case <-ctx.Done():
	}
	d.leave(r)
	select {
	case a := <-r.done: // it came at the same moment
		go d.q.handBack(ctx, a.messages)
	default:
	}
	return nil, context.Cause(ctx)
}

// leave takes a reader out of the line. One whose read is under way is marked.
func (d *desk) leave(gone *reader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone.gone = true
	d.asking = without(d.asking, gone)
	d.sleeping = without(d.sleeping, gone)
	if len(d.sleeping) == 0 {
		d.wake()
	}
}

func without(list []*reader, gone *reader) []*reader {
	for i, r := range list {
		if r == gone {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// callMore starts a shared read if there is somebody to read for. Call it with mu
// held.
func (d *desk) callMore() {
	if len(d.asking) > 0 && d.calls < callsAtOnce {
		d.calls++
		go d.serve()
	}
}

// serve makes shared reads until nobody asks.
func (d *desk) serve() {
	for {
		d.mu.Lock()
		if len(d.asking) == 0 {
			d.calls--
			d.mu.Unlock()
			return
		}
		turn := d.next()
		number := d.begun
		d.mu.Unlock()
		d.read(turn, number)
	}
}

// next takes those that one script call can serve from the line: the first, and
// all others with the same visibility and name, up to 1,000 messages. Call it
// with mu held.
func (d *desk) next() []*reader {
	d.begun++
	var turn, rest []*reader
	first, room := d.asking[0].cfg, chunk
	for _, r := range d.asking {
		if r.cfg.Visibility == first.Visibility && r.cfg.Consumer == first.Consumer && r.cfg.Max <= room {
			room -= r.cfg.Max
			turn = append(turn, r)
		} else {
			rest = append(rest, r)
		}
	}
	d.asking = rest
	return turn
}

// before takes those from the line who were in it when the shared read of that
// number began. Call it with mu held.
func (d *desk) before(number int) []*reader {
	var early, rest []*reader
	for _, r := range d.asking {
		if r.since < number {
			early = append(early, r)
		} else {
			rest = append(rest, r)
		}
	}
	d.asking = rest
	return early
}

// read makes one shared read and hands out what it brought. When that is all there
// was, or when it failed, the others who were in line have their answer, too: so
// those who wait under many names make no more calls than under one.
func (d *desk) read(turn []*reader, number int) {
	most, prefer := 0, []int(nil)
	for _, r := range turn {
		most += r.cfg.Max
		if r.cfg.Prefer > 0 {
			prefer = append(prefer, r.cfg.Prefer-1)
		}
	}
	ctx, cancel := script.Within(context.Background(), callPatience)
	defer cancel()
	t, err := d.q.take(ctx, turn[0].cfg, most, prefer)
	if missing := most - len(t.entries); err == nil && missing > 0 && !t.paused {
		err = d.adopt(ctx, turn[0].cfg, missing, &t)
	}
	messages := make([]Message, 0, len(t.entries))
	for _, e := range t.entries {
		m, garbled := e.message(t.at)
		if garbled != nil {
			d.q.bury(m.Receipt, garbled)
			continue
		}
		messages = append(messages, m)
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	shares, left := divide(turn, messages)
	if len(left) > 0 {
		go d.q.handBack(ctx, left)
	}
	if err != nil || len(t.entries) < most {
		others := d.before(number)
		turn, shares = append(turn, others...), append(shares, make([][]Message, len(others))...)
	}
	now := time.Now()
	for i, r := range turn {
		switch {
		case r.gone && len(shares[i]) > 0:
			go d.q.handBack(ctx, shares[i])
		case r.gone:
		case len(shares[i]) > 0:
			r.done <- answer{messages: shares[i]}
		case err != nil:
			r.done <- answer{err: err}
		case r.cfg.Block == 0 || !r.until.IsZero() && !now.Before(r.until):
			empty := ErrEmpty
			if t.paused {
				empty = ErrPaused
			}
			r.done <- answer{err: empty}
		default:
			d.sleeping = append(d.sleeping, r)
		}
	}
	if err == nil {
		d.pause = t.pause
	}
	if len(d.sleeping) > 0 && !d.asleep {
		d.asleep = true
		go d.sleep()
	}
}

// adopt moves messages of the legacy stream into the queue and takes them. What
// was taken before counts even if that fails.
func (d *desk) adopt(ctx context.Context, cfg ReadConfig, missing int, t *taken) error {
	moved, err := d.q.adopt(ctx, missing)
	if err == nil && moved > 0 {
		var more taken
		if more, err = d.q.take(ctx, cfg, moved, nil); err == nil {
			more.entries = append(t.entries, more.entries...)
			*t = more
		}
	}
	if err != nil && len(t.entries) > 0 {
		d.q.cfg.Logger.WarnContext(ctx, "messages of the legacy stream could not be moved", "queue", d.q.name, "error", err)
		return nil
	}
	return err
}

// divide deals messages out, one to each reader in turn: those who prefer a
// stream get a message of it if there is one.
func divide(turn []*reader, messages []Message) (shares [][]Message, left []Message) {
	shares = make([][]Message, len(turn))
	for i, r := range turn {
		for j, m := range messages {
			if r.cfg.Prefer == m.Stream+1 && !r.gone {
				shares[i] = append(shares[i], m)
				messages = append(messages[:j:j], messages[j+1:]...)
				break
			}
		}
	}
	for len(messages) > 0 {
		dealt := false
		for i, r := range turn {
			if len(messages) > 0 && !r.gone && len(shares[i]) < r.cfg.Max {
				shares[i] = append(shares[i], messages[0])
				messages, dealt = messages[1:], true
			}
		}
		if !dealt {
			return shares, messages
		}
	}
	return shares, nil
}

// sleep sleeps for all who wait, on one connection, until nobody does.
func (d *desk) sleep() {
	for {
		d.mu.Lock()
		if len(d.sleeping) == 0 {
			d.asleep = false
			d.mu.Unlock()
			return
		}
		most := longestSleep
		if d.pause >= 0 {
			most = min(most, d.pause)
		}
		for _, r := range d.sleeping {
			if !r.until.IsZero() {
				most = min(most, time.Until(r.until))
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		d.wake = cancel
		d.mu.Unlock()

		if _, err := wake.Wait(ctx, d.q.run.Client, baseKey(d.q.name)+":wake", most); err != nil {
			retry.Sleep(ctx, max(most, 10*time.Millisecond)) // the read tells what the trouble is
		}
		cancel()

		d.mu.Lock()
		for _, r := range d.sleeping {
			r.since = d.begun
		}
		d.asking = append(d.sleeping, d.asking...)
		d.sleeping = nil
		if len(d.asking) == 0 || d.calls >= callsAtOnce {
			d.mu.Unlock()
			continue
		}
		d.calls++
		d.mu.Unlock()
		d.serve() // before it sleeps again
	}
}

// handBack returns messages for which nobody is there any more.
func (q *Queue) handBack(ctx context.Context, messages []Message) {
	if len(messages) == 0 {
		return
	}
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = m.Receipt
	}
	ctx = reqid.With(context.WithoutCancel(ctx), "") // the caller did not ask for this
	ctx, cancel := context.WithTimeout(ctx, handBackPatience)
	defer cancel()
	if _, _, err := q.nack(ctx, "unread", 0, "", receipts...); err != nil {
		q.cfg.Logger.WarnContext(ctx, "messages could not be handed back and come again when they are visible",
			"queue", q.name, "messages", len(messages), "error", err)
	}
}

// bury has a message die that cannot be read.
func (q *Queue) bury(receipt string, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), handBackPatience)
	defer cancel()
	q.cfg.Logger.ErrorContext(ctx, "a message cannot be read and is dead", "queue", q.name, "error", why)
	if _, _, err := q.nack(ctx, "dead", 0, why.Error(), receipt); err != nil {
		q.cfg.Logger.WarnContext(ctx, "a message that cannot be read comes again", "queue", q.name, "error", err)
	}
}
