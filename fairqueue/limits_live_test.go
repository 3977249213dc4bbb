package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// observation is a delivery as the server and its reader tell it, in milliseconds of the server.
type observation struct {
	tenant  string
	handled bool
	at      int64 // when it was delivered: its receipt says so, rounded down
	until   int64 // it was surely in flight until then: its reader asked for the time, and settled it after that
}

// period is a time in which limits of a tenant surely held, in milliseconds of the server.
type period struct {
	of       string
	limits   queuestats.Limits
	from, to int64
}

// logbook is the deliveries that readers saw, and the limits that held.
type logbook struct {
	mu         sync.Mutex
	deliveries []observation
	periods    []period
}

// serverTime returns the server's clock in milliseconds. It asks again while the server is away.
func serverTime(t *testing.T, client rueidis.Client) int64 {
	t.Helper()
	var now int64
	redistest.Eventually(t, "the server tells the time", func() bool {
		parts, err := do(t, client, "TIME").AsIntSlice()
		if err == nil {
			now = parts[0]*1000 + parts[1]/1000
		}
		return err == nil
	})
	return now
}

// deliveredAt is the instant of a delivery that is not settled, in milliseconds; or else now.
func deliveredAt(t *testing.T, q *Queue, m Message, now int64) int64 {
	var value string
	redistest.Eventually(t, "the server tells a delivery", func() bool {
		var err error
		value, err = do(t, q.run.Client, "HGET", baseKey(q.name)+":hot", m.receipt().handle()).ToString()
		return err == nil || rueidis.IsRedisNil(err)
	})
	if len(value) < 16 {
		return now
	}
	at, _ := strconv.ParseInt(value[:13], 10, 64) // digits that a script wrote
	return at
}

func (b *logbook) saw(t *testing.T, q *Queue, m Message, handled bool, until int64) {
	at := deliveredAt(t, q, m, until)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliveries = append(b.deliveries, observation{m.Tenant, handled, at, min(until, at+liveVisibility.Milliseconds())})
}

// holds notes that limits hold from an instant until the tenant's next ones.
func (b *logbook) holds(of string, l queuestats.Limits, from int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.periods = append(b.periods, period{of, l, from, 1 << 62})
}

// ends notes that the limits of a tenant may change from an instant on.
func (b *logbook) ends(of string, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.periods) - 1; i >= 0; i-- {
		if b.periods[i].of == of {
			b.periods[i].to = to
			return
		}
	}
}

// concerns reports whether the limits count for a delivery. own are those that have limits of
// their own, for whom the default does not count.
func (p period) concerns(s observation, own map[string]bool) bool {
	if p.of == "" {
		return !own[s.tenant]
	}
	return p.of == s.tenant
}

// check checks that no limit was exceeded in the time in which it surely held.
func (b *logbook) check(t *testing.T, capacity int) {
	t.Helper()
	own := map[string]bool{}
	for _, p := range b.periods {
		own[p.of] = p.of != ""
	}
	for _, p := range b.periods {
		by := map[string][]observation{} // the default counts for each tenant by itself
		for _, s := range b.deliveries {
			if !p.concerns(s, own) {
				continue
			}
			of := p.of
			if of == "" {
				of = s.tenant
			}
			by[of] = append(by[of], s)
		}
		for of, list := range by {
			slices.SortFunc(list, func(a, b observation) int { return cmp.Compare(a.at, b.at) })
			if err := p.broken(list, capacity); err != nil {
				t.Errorf("%+v: %v", of, err)
			}
		}
	}
}

// broken returns an error if deliveries, in the order of their instants, exceed the limits.
func (p period) broken(list []observation, capacity int) error {
	l := p.limits
	first, lowest, n := true, 0.0, 0.0
	for i, s := range list {
		if s.at <= p.from || s.at >= p.to {
			continue
		}
		if l.Paused {
			return fmt.Errorf("a delivery at %d, while paused from %d to %d", s.at, p.from, p.to)
		}
		if l.Rate > 0 {
			// Of any window: deliveries - rate * time <= burst. An instant is rounded down, so a
			// window may be a millisecond longer than it seems.
			n++
			level := n - l.Rate*float64(s.at)/1000
			if first || level < lowest {
				first, lowest = false, level
			}
			if most := float64(burst(l)) + l.Rate/1000 + 1e-3; level-lowest+1 > most {
				return fmt.Errorf("a window that ends at %d has %.3f deliveries more than its time is worth, at most %.3f: %+v", s.at, level-lowest+1, most, l)
			}
		}
		if i+1 < len(list) && list[i+1].at == s.at {
			continue // count after the last of this instant
		}
		flying, handled := 0, 0
		for _, other := range list[:i+1] {
			if other.until > s.at+1 {
				flying++
				if other.handled {
					handled++
				}
			}
		}
		if l.MaxInFlight > 0 && flying > l.MaxInFlight {
			return fmt.Errorf("%d are in flight at %d, at most %d", flying, s.at, l.MaxInFlight)
		}
		if most := max(1, int(l.MaxShare*float64(capacity))); l.MaxShare > 0 && s.handled && handled > most {
			return fmt.Errorf("%d are with handlers at %d, at most %d", handled, s.at, most)
		}
	}
	return nil
}

// liveTenants are those of the histories in real time. The last three have only the default.
var liveTenants = []string{"a", "b", "p", "q", "r", "c", "d", "e"}

// liveLimited are those whose limits change.
var liveLimited = []string{"", "a", "b", "p", "q", "r"}

func liveLimits(of string) queuestats.Limits {
	l := queuestats.Limits{
		MaxInFlight: rand.IntN(4), Rate: []float64{0, 50, 200, 1000}[rand.IntN(4)], Burst: []int{0, 1, 5}[rand.IntN(3)],
		Paused: of != "" && rand.IntN(6) == 0, MaxShare: []float64{0, 0.2}[rand.IntN(2)],
	}
	if l.Rate == 0 {
		l.Burst = 0
	}
	return l
}

// TestLimitsUnderChange has processes write, read, handle, throttle and settle, while another one
// changes the limits of all and a network loses replies, or the server is killed and restarted.
// The instants of deliveries are the server's. In the end nothing of it is left.
func TestLimitsUnderChange(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"lost replies", "restarts"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{AOF: true})
			proxy := redistest.NewProxy(t, server.Addr())
			newLiveScene(t, server, proxy).play(trouble)
		})
	}
}

// liveScene is a queue in use.
type liveScene struct {
	t       *testing.T
	server  *redistest.Server
	proxy   *redistest.Proxy
	watch   *Queue
	book    logbook
	handled sync.Map // ids
	written sync.Map
	ctx     context.Context
	stop    func()
	working sync.WaitGroup
}

const (
	liveHandlers = 10
	liveLasts    = 700 * time.Millisecond

	// liveVisibility is after how long a message comes again that a killed server delivered.
	liveVisibility = 2 * time.Second
)

func liveBackoff(int, error) time.Duration { return time.Duration(rand.IntN(20)) * time.Millisecond }

func newLiveScene(t *testing.T, server *redistest.Server, proxy *redistest.Proxy) *liveScene {
	s := &liveScene{t: t, server: server, proxy: proxy, watch: openOn(t, server.Client(t), "x", Config{MaxAttempts: 1000})}
	s.ctx, s.stop = context.WithCancel(t.Context())
	return s
}

// queue returns the queue as another process has it, behind the proxy.
func (s *liveScene) queue() *Queue {
	return openOn(s.t, s.proxy.Client(s.t), "x", Config{MaxAttempts: 1000, Logger: slog.New(slog.DiscardHandler)})
}

func (s *liveScene) play(trouble string) {
	for _, of := range liveLimited {
		s.change(s.watch, of)
	}
	for range 2 {
		q := s.queue()
		s.working.Go(func() { s.write(q) })
		s.working.Go(func() { s.read(q) })
		s.working.Go(func() { s.read(q) })
		cfg := ConsumeConfig{Concurrency: liveHandlers / 2, Visibility: liveVisibility, Backoff: liveBackoff}
		stop := consume(s.t, q, cfg, s.handle)
		defer stop()
	}
	redistest.Eventually(s.t, "both have registered", func() bool {
		st, err := s.watch.Stats(s.t.Context())
		return err == nil && st.Capacity == liveHandlers
	})
	changer := s.queue()
	if trouble == "lost replies" {
		s.proxy.DropReplyWhen(func(cmd []string) bool { return evalsha(cmd) && rand.IntN(40) == 0 })
	}
	for start := time.Now(); time.Since(start) < liveLasts; {
		for range 3 {
			s.change(changer, liveLimited[rand.IntN(len(liveLimited))])
		}
		<-time.After(10 * time.Millisecond) // in which they hold
		if trouble == "restarts" && rand.IntN(8) == 0 {
			s.server.Kill()
			s.server.Restart()
		}
		s.counts()
	}
	s.stop()
	s.proxy.Heal()
	s.working.Wait()
	for _, of := range liveLimited {
		s.book.ends(of, serverTime(s.t, s.watch.run.Client))
		if err := s.watch.Limits().Clear(s.t.Context(), of); err != nil {
			s.t.Fatal(err)
		}
	}
	drained(s.t, s.watch)
	s.book.check(s.t, liveHandlers)
	s.written.Range(func(id, _ any) bool {
		if _, ok := s.handled.Load(id); !ok {
			s.t.Errorf("message %v was written and is gone", id)
		}
		return true
	})
	s.counts()
	awaitRest(s.t, s.watch)
	s.t.Logf("%d deliveries, %d periods", len(s.book.deliveries), len(s.book.periods))
}

// change gives a tenant other limits.
func (s *liveScene) change(q *Queue, of string) {
	l := liveLimits(of)
	s.book.ends(of, serverTime(s.t, s.watch.run.Client))
	redistest.Eventually(s.t, "limits change", func() bool { return q.Limits().Set(s.t.Context(), of, ownOf(l)) == nil })
	s.book.holds(of, l, serverTime(s.t, s.watch.run.Client))
}

// counts checks that the queue's count equals the messages in flight, at one instant.
func (s *liveScene) counts() {
	s.t.Helper()
	if diff := miscounted(s.t, s.watch); diff != "" {
		s.t.Errorf("deliveries by tenant (-in flight +counted):\n%s", diff)
	}
}

func (s *liveScene) write(q *Queue) {
	for i := 0; s.ctx.Err() == nil; i++ {
		if n, err := s.watch.Len(s.t.Context()); err != nil || n > 300 {
			<-time.After(time.Millisecond) // readers are behind
			continue
		}
		drafts := make([]Draft, 20)
		for j := range drafts {
			drafts[j].Tenant = liveTenants[rand.IntN(len(liveTenants))]
		}
		written, err := q.WriteBatch(s.t.Context(), drafts...)
		for _, w := range written {
			s.written.Store(w.ID, true)
		}
		if err != nil {
			s.t.Logf("write: %v", err) // the server was away
		}
	}
}

func (s *liveScene) read(q *Queue) {
	for s.ctx.Err() == nil {
		messages, err := q.Read(s.t.Context(), ReadConfig{Max: 1 + rand.IntN(4), Block: 5 * time.Millisecond, Visibility: liveVisibility})
		if err != nil && !errors.Is(err, ErrEmpty) {
			s.t.Logf("read: %v", err)
			continue
		}
		until := serverTime(s.t, s.watch.run.Client)
		for _, m := range messages {
			s.book.saw(s.t, s.watch, m, false, until)
			if rand.IntN(3) == 0 {
				_, err = q.Nack(s.t.Context(), NackConfig{}, m.Receipt)
			} else {
				s.handled.Store(m.ID, true)
				_, err = q.Ack(s.t.Context(), m.Receipt)
			}
			if err != nil {
				s.t.Logf("settle: %v", err)
			}
		}
	}
}

func (s *liveScene) handle(_ context.Context, m Message) error {
	if rand.IntN(4) == 0 {
		<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond)
	}
	s.book.saw(s.t, s.watch, m, true, serverTime(s.t, s.watch.run.Client))
	switch rand.IntN(8) {
	case 0:
		return Throttle(time.Duration(1+rand.IntN(20))*time.Millisecond, errors.New("slow down"))
	case 1:
		return errors.New("no luck")
	}
	s.handled.Store(m.ID, true)
	return nil
}
