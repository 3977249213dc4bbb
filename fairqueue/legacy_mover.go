package fairqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// legacyInterval is the time between two looks at streams that had no more entries, or
	// failed.
	legacyInterval = 500 * time.Millisecond

	// legacyPage is how many entries are moved at once, and at how many streams a call looks, at most.
	legacyPage = 100

	// legacyPass is how often a process looks for entries that a process of the queue took
	// and did not move because it died.
	legacyPass = 10 * time.Second
)

// legacyMover moves entries of legacy streams into the queue, for the readers of one Queue. All movers of
// a queue are one consumer of the group: any mover finds the entries that another took and did not move in
// that consumer's list. Where two move the same entry, its dedupe id prevents a second message.
//
//	turn ──▶ credit ──▶ move: take entries ──▶ write them ──▶ acknowledge and delete them
type legacyMover struct {
	q *Queue

	mu     sync.Mutex
	credit int       // entries that readers asked for; negative if more came
	moving *move     // under way; nil for none
	rest   time.Time // no move begins before

	sources []*legacySource // owned by the move that is under way
}

// move is one run of moves.
type move struct {
	began time.Time
	done  chan struct{}
	moved int // entries, when done is closed
}

func newLegacyMover(q *Queue) *legacyMover {
	m := &legacyMover{q: q}
	for _, l := range q.cfg.Legacy {
		m.sources = append(m.sources, newLegacySource(q, l))
	}
	return m
}

// turn has entries moved in the background, as many as messages were read, or up to n if none were. It returns
// the move, nil if there is nothing to do. Only where messages are read does it count that more came before.
func (m *legacyMover) turn(read, n int) *move {
	if len(m.q.cfg.Legacy) == 0 || m.q.shared.paused.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if read == 0 {
		m.credit, read = max(0, m.credit), n
	}
	m.credit = min(legacyPage, m.credit+read)
	if m.moving == nil && m.credit > 0 && !time.Now().Before(m.rest) {
		m.moving = &move{began: time.Now(), done: make(chan struct{})}
		go m.run(m.moving)
	}
	return m.moving
}

// wait has up to n entries moved, and reports whether some were before ctx ended. A silent server of the
// stream keeps readers for legacyInterval at most.
func (m *legacyMover) wait(ctx context.Context, n int) bool {
	move := m.turn(0, n)
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
	if len(m.q.cfg.Legacy) == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		next := time.NewTicker(legacyInterval)
		defer next.Stop()
		for {
			select {
			case <-next.C:
				m.turn(0, n)
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// run moves pages until there is no credit, or no source has more.
func (m *legacyMover) run(move *move) {
	defer close(move.done)
	ctx := script.Endless(script.Detached(context.Background())) // in this goroutine alone
	taken, dry := 0, false
	for {
		m.mu.Lock()
		m.credit -= taken
		n := m.credit
		if dry {
			m.rest = time.Now().Add(legacyInterval)
		}
		if n <= 0 || dry {
			m.moving = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		taken, dry = 0, true
		for _, source := range m.sources {
			t, moved := m.some(ctx, source, (n+len(m.sources)-1)/len(m.sources))
			taken += t
			move.moved += moved
			dry = dry && source.resting()
		}
	}
}

// some moves up to n entries of a source, or as many as it has streams.
func (m *legacyMover) some(ctx context.Context, source *legacySource, n int) (taken, moved int) {
	if source.resting() {
		return 0, 0
	}
	ctx, cancel := script.Within(ctx, callTimeout)
	defer cancel()
	taken, moved, err := m.page(ctx, source, n)
	if err != nil && !source.failed && !errors.Is(err, rueidis.ErrClosing) {
		m.q.cfg.Logger.WarnContext(ctx, "entries of a legacy stream are not moved into the queue", "queue", m.q.name, "stream", source.cfg.Stream+source.cfg.Shuffle, "error", err)
	}
	if source.failed = err != nil; source.failed { // the next page begins with what this one took
		source.again()
	}
	if source.failed || taken < n {
		source.rest = time.Now().Add(legacyInterval)
	}
	return taken, moved
}

// page moves entries of a source. It returns how many it took, and how many of them are in the queue.
func (m *legacyMover) page(ctx context.Context, source *legacySource, n int) (taken, moved int, err error) {
	q := m.q
	entries, err := source.take(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	var drafts []Draft
	var drafted, gone []legacyEntry
	for _, e := range entries {
		if e.fields == nil { // it was deleted while it was pending
			gone = append(gone, e)
			continue
		}
		d, err := source.cfg.draft(e.stream.key, e.id, e.fields)
		if err == nil {
			_, err = d.encode(q.cfg.Gzip) // it may be too large
		}
		if err != nil {
			if q.shared.warn("legacy " + e.stream.key + " " + e.id) {
				q.cfg.Logger.ErrorContext(ctx, "an entry of a legacy stream is no message, and stays pending", "queue", q.name, "stream", e.stream.key, "entry", e.id, "consumer", source.consumer(), "error", err)
			}
			continue
		}
		drafts, drafted = append(drafts, d), append(drafted, e)
	}
	written, err := q.WriteBatch(ctx, drafts...)
	for i, w := range written {
		if w.ID != "" {
			gone = append(gone, drafted[i])
			moved++
		}
	}
	if removed := source.remove(ctx, gone); err == nil {
		err = removed
	}
	return len(entries), moved, err
}
