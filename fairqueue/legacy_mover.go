package fairqueue

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// legacyInterval is the time between two looks at a stream that had no more entries, or
	// failed.
	legacyInterval = 500 * time.Millisecond

	// legacyPage is how many entries are moved at once, at most.
	legacyPage = 100

	// legacyPass is how often a process looks for entries that a process of the queue took
	// and did not move because it died.
	legacyPass = 10 * time.Second
)

// legacyMover moves entries of a legacy stream into the queue, for the readers of one Queue. All movers of
// a queue are one consumer of the group: any mover finds the entries that another took and did not move in
// that consumer's list. Where two move the same entry, its dedupe id prevents a second message.
//
//	turn ──▶ credit ──▶ move: take entries ──▶ write them ──▶ acknowledge and delete them
type legacyMover struct {
	q *Queue

	mu     sync.Mutex
	credit int       // entries that readers asked for
	moving *move     // under way; nil for none
	rest   time.Time // no move begins before
	failed bool      // the last move

	// Owned by the move that is under way.
	after   string    // the id in the own list behind which it goes on; ">" behind the list
	passed  time.Time // when it last began at the front of the list
	cursor  string    // where XAUTOCLAIM goes on
	claimed time.Time // when it was last called
}

// move is one run of moves.
type move struct {
	began time.Time
	done  chan struct{}
	moved int // entries, when done is closed
}

// turn has up to n entries moved in the background, and returns the move. It returns nil if there is
// nothing to do.
func (m *legacyMover) turn(n int) *move {
	if m.q.cfg.Legacy.Stream == "" || m.q.shared.paused.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.credit = min(legacyPage, m.credit+n)
	if m.moving == nil && !time.Now().Before(m.rest) {
		m.moving = &move{began: time.Now(), done: make(chan struct{})}
		go m.run(m.moving)
	}
	return m.moving
}

// wait has up to n entries moved, and reports whether some were before ctx ended. A silent server of the
// stream keeps readers for legacyInterval at most.
func (m *legacyMover) wait(ctx context.Context, n int) bool {
	move := m.turn(n)
	if move == nil {
		return false
	}
	most := time.NewTimer(time.Until(move.began.Add(legacyInterval)))
	defer most.Stop()
	select {
	case <-move.done:
		return move.moved > 0
	case <-most.C:
	case <-ctx.Done():
	}
	return false
}

// watch has up to n entries moved, again and again, while a reader sleeps.
func (m *legacyMover) watch(n int) (stop func()) {
	if m.q.cfg.Legacy.Stream == "" {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		next := time.NewTicker(legacyInterval)
		defer next.Stop()
		for {
			select {
			case <-next.C:
				m.turn(n)
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// run moves pages until there is no credit, or the stream has no more.
func (m *legacyMover) run(move *move) {
	defer close(move.done)
	for {
		m.mu.Lock()
		n := m.credit
		m.credit = 0
		if n == 0 {
			m.moving = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		ctx, cancel := script.Within(context.Background(), callTimeout)
		taken, moved, err := m.page(script.Endless(script.Detached(ctx)), n) // in this goroutine alone
		cancel()
		move.moved += moved
		m.mu.Lock()
		if err != nil && !m.failed && !errors.Is(err, rueidis.ErrClosing) {
			m.q.cfg.Logger.Warn("entries of the legacy stream are not moved into the queue", "queue", m.q.name, "stream", m.q.cfg.Legacy.Stream, "error", err)
		}
		if m.failed = err != nil; m.failed || taken < n {
			m.rest = time.Now().Add(legacyInterval)
			m.moving = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
	}
}

// page moves up to n entries. It returns how many it took, and how many of them are in the queue.
func (m *legacyMover) page(ctx context.Context, n int) (taken, moved int, err error) {
	defer func() {
		if err != nil { // the next page begins with what this one took
			m.after = ""
		}
	}()
	q := m.q
	entries, err := m.take(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	var drafts []Draft
	var ids, gone []string
	for _, e := range entries {
		if e.FieldValues == nil { // it was deleted while it was pending
			gone = append(gone, e.ID)
			continue
		}
		d, err := q.cfg.Legacy.draft(e.ID, e.FieldValues)
		if err == nil {
			_, err = d.encode(q.cfg.Gzip) // it may be too large
		}
		if err != nil {
			if q.shared.warn("legacy " + e.ID) {
				q.cfg.Logger.ErrorContext(ctx, "an entry of the legacy stream is no message, and stays pending", "queue", q.name, "entry", e.ID, "consumer", m.consumer(), "error", err)
			}
			continue
		}
		drafts, ids = append(drafts, d), append(ids, e.ID)
	}
	written, err := q.WriteBatch(ctx, drafts...)
	for i, w := range written {
		if w.ID != "" {
			gone = append(gone, ids[i])
			moved++
		}
	}
	if removed := m.remove(ctx, gone); err == nil {
		err = removed
	}
	return len(entries), moved, err
}

// remove removes entries that are in the queue from the stream.
func (m *legacyMover) remove(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	c, l := m.q.client, m.q.cfg.Legacy
	_, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		for _, reply := range c.DoMulti(ctx,
			c.B().Xack().Key(l.Stream).Group(l.Group).Id(ids...).Build(),
			c.B().Xdel().Key(l.Stream).Id(ids...).Build(),
		) {
			if err := reply.Error(); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	return err
}

// consumer is the name of all movers of the queue in the group.
func (m *legacyMover) consumer() string { return "mr:" + m.q.name }

// take takes entries of the stream: those that a mover of the queue left, those that old readers
// left, or new ones.
func (m *legacyMover) take(ctx context.Context, n int) ([]rueidis.XRangeEntry, error) {
	entries, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.XRangeEntry, error) {
		if now := time.Now(); m.after == "" || m.after == ">" && now.Sub(m.passed) > legacyPass {
			m.after, m.passed = "0", now
		}
		if m.after != ">" {
			entries, err := m.read(ctx, n, m.after)
			if err != nil {
				return nil, err
			}
			if len(entries) > 0 {
				m.after = entries[len(entries)-1].ID
				return entries, nil
			}
			m.after = ">"
		}
		if entries, err := m.claim(ctx); err != nil || len(entries) > 0 {
			return entries, err
		}
		return m.read(ctx, n, ">")
	})
	if !retry.Code(err, "NOGROUP") {
		return entries, err
	}
	if made, err := m.group(ctx); err != nil || !made {
		return nil, err
	}
	return m.take(ctx, n)
}

// read takes new entries, or reads those of the own list behind an id.
func (m *legacyMover) read(ctx context.Context, n int, after string) ([]rueidis.XRangeEntry, error) {
	c, l := m.q.client, m.q.cfg.Legacy
	streams, err := c.Do(ctx, c.B().Xreadgroup().Group(l.Group, m.consumer()).Count(int64(n)).Streams().Key(l.Stream).Id(after).Build()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return streams[l.Stream], err
}

// claim takes entries that old readers left for longer than ClaimAfter. One call looks at a bounded
// number of entries, and the next call goes on behind them.
func (m *legacyMover) claim(ctx context.Context) ([]rueidis.XRangeEntry, error) {
	c, l := m.q.client, m.q.cfg.Legacy
	if l.ClaimAfter == 0 || time.Since(m.claimed) < legacyInterval {
		return nil, nil
	}
	m.claimed = time.Now()
	start := m.cursor
	if start == "" {
		start = "0"
	}
	reply, err := c.Do(ctx, c.B().Xautoclaim().Key(l.Stream).Group(l.Group).Consumer(m.consumer()).
		MinIdleTime(strconv.FormatInt(l.ClaimAfter.Milliseconds(), 10)).Start(start).Count(legacyPage).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	if m.cursor, err = reply[0].ToString(); err != nil {
		return nil, err
	}
	list, err := reply[1].ToArray()
	if err != nil {
		return nil, err
	}
	var entries []rueidis.XRangeEntry
	for _, item := range list {
		if item.IsNil() { // Redis 6.2 has it for a deleted entry, which is then in the own list
			continue
		}
		e, err := item.AsXRangeEntry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// group creates the group at the start of the stream, if there is a stream, and reports
// whether it did.
func (m *legacyMover) group(ctx context.Context) (bool, error) {
	c, l := m.q.client, m.q.cfg.Legacy
	there, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
		return c.Do(ctx, c.B().Exists().Key(l.Stream).Build().Pin()).AsInt64()
	})
	if err != nil || there == 0 {
		return false, err
	}
	_, err = script.Prompt(ctx, func(ctx context.Context) (string, error) {
		return c.Do(ctx, c.B().XgroupCreate().Key(l.Stream).Group(l.Group).Id("0").Build()).ToString()
	})
	if retry.Code(err, "BUSYGROUP") {
		err = nil
	}
	return err == nil, err
}
