package fairqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/internal/test/redistest"
)

// stormCells are the kinds of queues that meet a storm.
var stormCells = map[string]struct {
	servers int // each with a part, if there are several
	cfg     fairqueue.Config
}{
	"tenants": {1, fairqueue.Config{}},
	"streams": {1, fairqueue.Config{Streams: 4, PerTenant: 2, Gzip: 100}},
	"parts":   {2, fairqueue.Config{}},
}

// TestEverything makes random calls of all kinds from many goroutines, while connections are cut, replies are lost, consumers
// are killed, servers are full, stop and restart, and their clocks jump. Then no message is lost, none comes twice that was
// acknowledged, and each queue is as it should be.
//
// It first repeats the seeds in testdata/seeds/kept.txt, one a line behind the name of its kind of queue. Since goroutines are never
// scheduled in the same way, a seed repeats the same plan and not the same history: one that failed may need several runs.
// MILLRACE_SOAK makes it an hour.
func TestEverything(t *testing.T) {
	t.Parallel()
	group := func(name string, troubles int, seeds [][2]string) {
		t.Run(name, func(t *testing.T) {
			for _, of := range seeds {
				t.Run(of[0]+" "+of[1], func(t *testing.T) {
					t.Parallel()
					seed, err := strconv.ParseUint(of[1], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					newStorm(t, of[0], seed).run(troubles)
				})
			}
		})
	}
	kept, fresh, lasts := 5, 10, time.Duration(0)
	if redistest.More() {
		kept, fresh = 10, 30
	}
	if os.Getenv("MILLRACE_SOAK") != "" {
		kept, fresh, lasts = 10, 200, time.Hour
	}
	began := time.Now()
	group("kept", kept, keptSeeds(t))
	for again := true; again && !t.Failed(); again = time.Since(began) < lasts {
		seed := strconv.FormatUint(rand.Uint64(), 10)
		group("new", fresh, [][2]string{{"tenants", seed}, {"streams", seed}, {"parts", seed}})
	}
}

// keptSeeds are those that failed once, each behind its kind of queue.
func keptSeeds(t *testing.T) (seeds [][2]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds/kept.txt")
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(strings.Fields(string(text)), 2) {
		seeds = append(seeds, [2]string(pair))
	}
	return seeds
}

// storm is one run.
type storm struct {
	t         *testing.T
	seed      uint64
	cfg       fairqueue.Config
	dropsDead bool
	servers   []*redistest.Server
	proxies   []*redistest.Proxy
	admin     []rueidis.Client // of the servers, past the proxies
	direct    session          // past the proxies
	ctx       context.Context  //nolint:containedctx // ends with the storm
	end       context.CancelFunc

	mu       sync.Mutex
	ids      map[string]string // bodies by ids
	bodies   map[string]string // ids by bodies
	recent   []string          // ids
	waiting  map[string]bool   // bodies of messages that were surely written and must be handled
	excused  map[string]bool   // bodies of those that were handled, or may be removed
	settled  map[string]bool   // ids of messages that cannot come again
	calls    map[string]int    // that succeeded
	troubles map[string]int
}

func newStorm(t *testing.T, cell string, seed uint64) *storm {
	t.Helper()
	of, there := stormCells[cell]
	if !there {
		t.Fatalf("there is no cell %q", cell)
	}
	s := &storm{
		t: t, seed: seed, cfg: of.cfg, dropsDead: seed%2 == 0,
		ids: map[string]string{}, bodies: map[string]string{}, waiting: map[string]bool{}, excused: map[string]bool{}, settled: map[string]bool{},
		calls: map[string]int{}, troubles: map[string]int{},
	}
	s.cfg.MaxAttempts, s.cfg.DedupeWindow, s.cfg.Logger = 1000, 200*time.Millisecond, slog.New(slog.DiscardHandler)
	s.ctx, s.end = context.WithCancel(t.Context())
	for range of.servers {
		server := redistest.Start(t, redistest.Options{AOF: true})
		s.servers, s.proxies = append(s.servers, server), append(s.proxies, redistest.NewProxy(t, server.Addr()))
		s.admin = append(s.admin, server.Client(t))
	}
	s.direct = s.open(s.admin)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat this plan in each run, add to testdata/seeds/kept.txt: %s %d", cell, seed)
		}
	})
	return s
}

const stormName = "jobs"

// open returns the queue over clients of the servers.
func (s *storm) open(clients []rueidis.Client) session {
	if len(clients) == 1 {
		q, err := fairqueue.New(clients[0], stormName, s.cfg)
		if err != nil {
			panic(err)
		}
		fairqueue.Shifted(q)
		return sessionOf(q, clients)
	}
	q, err := parts.New(parts.Config{Parts: parts.Across(stormName, clients...), Timeout: 500 * time.Millisecond, Queue: s.cfg})
	if err != nil {
		panic(err)
	}
	fairqueue.Shifted(q.Parts()...)
	return sessionOf(q, clients)
}

// connect returns the queue as another process sees it, until that is closed. It may fail while proxies refuse.
func (s *storm) connect() (one session, closed func(), err error) {
	var clients []rueidis.Client
	closed = sync.OnceFunc(func() {
		fairqueue.EndWorkers(one.parts...)
		for _, client := range clients {
			client.Close()
		}
	})
	for _, p := range s.proxies {
		option := rueidis.MustParseURL(p.URL())
		option.DisableCache, option.PipelineMultiplex, option.RingScaleEachConn = true, -1, 7
		client, err := rueidis.NewClient(option)
		if err != nil {
			closed()
			return one, nil, err
		}
		clients = append(clients, client)
	}
	one = s.open(clients)
	return one, closed, nil
}

func (s *storm) random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, n)) }

func (s *storm) blows() bool { return s.ctx.Err() == nil }

// run has the storm cause so many troubles, and checks the queue afterwards.
func (s *storm) run(troubles int) {
	for _, q := range s.direct.parts {
		if _, err := q.Write(s.t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("tick")}); err != nil {
			s.t.Fatal(err)
		}
	}
	var working sync.WaitGroup
	defer working.Wait()
	defer s.end()
	for n := range 2 {
		one, closed, err := s.connect()
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(closed)
		for m := range 3 {
			c := &caller{session: one, s: s, number: 3*n + m}
			c.r = s.random(uint64(100 + c.number))
			working.Go(c.run)
		}
		working.Go(func() { s.consume(s.random(uint64(200 + n))) })
	}
	for r := s.random(0); troubles > 0 && !s.t.Failed(); troubles-- {
		s.trouble(r)
	}
	redistest.Eventually(s.t, "a message is handled", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls["handle"] > 0
	})
	s.end()
	working.Wait()
	s.drain()
	s.judge()
}

// consume runs one consumer after the other. Some end, and others are killed.
func (s *storm) consume(r *rand.Rand) {
	for s.blows() {
		one, closed, err := s.connect()
		if err != nil {
			s.pass(10 * time.Millisecond)
			continue
		}
		cfg := fairqueue.ConsumeConfig{
			Concurrency: pick(r, 1, 4, 10), Visibility: pick(r, 100*time.Millisecond, 15*time.Second), Drain: pick(r, time.Millisecond, 100*time.Millisecond),
			Backoff: func(int, error) time.Duration { return 20 * time.Millisecond },
		}
		if r.IntN(2) == 0 {
			cfg.Pool, _ = fairqueue.NewPool(4)
		}
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- one.Consume(ctx, cfg, s.handle) }()
		s.pass(time.Duration(100+r.IntN(900)) * time.Millisecond)
		if r.IntN(2) == 0 { // it is killed
			for _, p := range s.proxies {
				p.Cut() // Close waits for requests that were sent
			}
			closed()
		}
		end()
		s.note("consume", <-ended)
		closed()
	}
}

// pass returns after d, or with the storm.
func (s *storm) pass(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

// admins sends a command to a server until it takes it.
func (s *storm) admins(n int, command ...string) {
	s.t.Helper()
	redistest.Eventually(s.t, strings.Join(command, " "), func() bool {
		return s.admin[n].Do(s.t.Context(), s.admin[n].B().Arbitrary(command...).Build()).Error() == nil
	})
}

// trouble makes trouble of one kind with a server, and ends it.
func (s *storm) trouble(r *rand.Rand) {
	s.pass(time.Duration(r.IntN(60)) * time.Millisecond)
	n := r.IntN(len(s.servers))
	server, proxy, lasts := s.servers[n], s.proxies[n], time.Duration(20+r.IntN(150))*time.Millisecond
	call := redistest.Named("EVALSHA", "EVALSHA_RO")
	defer proxy.Heal()
	kind := pick(r, "cut", "lost replies", "lost replies", "lost request", "refused", "slow", "held", "clock", "clock", "clock", "full", "full", "stopped", "flushed", "killed")
	s.troubles[kind]++
	undo := func() {}
	switch kind {
	case "cut":
		proxy.Cut()
		return
	case "lost replies":
		lost := s.random(r.Uint64())
		proxy.DropReplyWhen(func(command []string) bool { return call(command) && lost.IntN(4) == 0 })
	case "lost request":
		proxy.DropRequest(call)
	case "refused":
		proxy.Refuse(true)
		proxy.Cut()
	case "slow":
		proxy.Delay(20 * time.Millisecond)
	case "held":
		proxy.HalfClose()
	case "clock":
		s.admins(n, "SET", fairqueue.ShiftKey(stormName), pick(r, "1", "3600", "3600", "86400", "-30", "-3600"))
		undo = func() { s.admins(n, "SET", fairqueue.ShiftKey(stormName), "0") }
	case "full":
		s.admins(n, "CONFIG", "SET", "maxmemory", "1")
		undo = func() { s.admins(n, "CONFIG", "SET", "maxmemory", "0") }
	case "stopped":
		server.Pause()
		undo = server.Resume
	case "flushed":
		s.admins(n, "SCRIPT", "FLUSH")
		return
	case "killed":
		server.Kill()
		server.Restart()
		return
	}
	s.pass(lasts)
	undo()
}

// drain ends pauses and limits, and handles all messages. It repeats that, since a call that was cut off may arrive late. Each
// time all that waits for less than a minute is due, and nothing may wait for an instant that only a wrong clock named.
func (s *storm) drain() {
	drained := false
	defer func() {
		for _, q := range s.direct.parts {
			for _, state := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Dead} {
				messages, _, err := q.Browse(s.t.Context(), fairqueue.BrowseConfig{State: state, Max: 3})
				if !drained {
					s.t.Logf("%s: %+v, %v", state, messages, err)
				}
			}
		}
	}()
	minutes := 0
	redistest.Eventually(s.t, "the queue is drained", func() bool {
		ctx := s.t.Context()
		left := 0
		minutes = min(minutes+1, 30)
		for n := range s.servers {
			s.admins(n, "SET", fairqueue.ShiftKey(stormName), strconv.Itoa(60*minutes))
		}
		for _, q := range s.direct.parts {
			errs := []error{q.Resume(ctx)}
			for _, tenant := range append([]string{""}, everyTenant...) {
				err := q.Limits().Clear(ctx, tenant)
				if tenant != "" {
					err = errors.Join(err, q.Limits().Resume(ctx, tenant))
				}
				if s.cfg.Streams == 0 {
					errs = append(errs, err)
				}
			}
			for one := range q.Schedules().All(ctx) {
				errs = append(errs, q.Schedules().Remove(ctx, one.Name))
			}
			errs = append(errs, s.closeBatches()...)
			_, _, err := q.Retry(ctx, fairqueue.SearchConfig{State: fairqueue.Dead})
			if err = errors.Join(append(errs, err)...); err != nil {
				s.t.Errorf("after the storm: %v", err)
			}
		}
		for {
			messages, err := s.direct.Read(ctx, fairqueue.ReadConfig{Max: 100})
			for _, m := range messages {
				s.saw(m)
				s.handled(m)
				if _, err := s.direct.Ack(ctx, m.Receipt); err != nil {
					s.t.Errorf("ack %+v after the storm: %v", m, err)
				}
				s.over(m.ID)
			}
			if errors.Is(err, fairqueue.ErrEmpty) || errors.Is(err, fairqueue.ErrPaused) { // a pause may arrive late
				break
			}
			if errors.Is(err, context.DeadlineExceeded) {
				return false // a busy machine: a part has half a second to answer
			}
			if err != nil {
				s.t.Errorf("read after the storm: %v", err)
				return true
			}
		}
		for _, q := range s.direct.parts {
			stats, err := q.Stats(ctx)
			if err != nil {
				s.t.Errorf("stats after the storm: %v", err)
			}
			left += stats.Waiting + stats.InFlight + stats.Delayed + stats.Dead
		}
		drained = left == 0
		return drained
	})
}

// judge reports faults of the drained queue.
func (s *storm) judge() {
	for i, q := range s.direct.parts {
		wrong, err := q.Check(s.t.Context())
		if len(wrong) > 0 || err != nil {
			s.t.Errorf("part %d is wrong: %q, %v", i, wrong, err)
		}
		stats, err := q.Stats(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		n := stats.Counters
		counts := []int64{n.Written, n.Delivered, n.Cost, n.Acked, n.Nacked, n.Returned, n.Reclaimed, n.Expired, n.Cancelled, n.Buried, n.Redriven, n.Purged, n.Dropped}
		if slices.Min(counts) < 0 {
			s.t.Errorf("part %d has a negative count: %+v", i, n)
		}
		if left := n.Acked + n.Expired + n.Cancelled + n.Purged + n.Dropped; left != n.Written || n.Lost != 0 {
			s.t.Errorf("part %d is empty, %d messages were written and %d left: %+v", i, n.Written, left, n)
		}
		if _, err := q.Delete(s.t.Context()); err != nil {
			s.t.Errorf("delete: %v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for body := range s.waiting {
		s.t.Errorf("message %s was written and never handled: %.40q", s.bodies[body], body)
	}
	s.t.Logf("%d messages; calls: %v; trouble: %v", len(s.ids), s.calls, s.troubles)
}

// note notes how a call ended.
func (s *storm) note(name string, err error) {
	may := func(one error) bool { return errors.Is(err, one) }
	if err != nil && !slices.ContainsFunc(refusals, may) && !slices.ContainsFunc(alsoRefusals[name], may) {
		s.t.Errorf("%s: error %v (%T) is none that it may return", name, err, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.calls[name]++
	}
}

// crowded reports whether enough messages wait.
func (s *storm) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 400
}

// wrote notes that a message is surely in the queue. The id of a duplicate by its position is "".
func (s *storm) wrote(id string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "" {
		s.is(id, string(body))
		s.recent = append(s.recent, id)
	}
	if !s.excused[string(body)] {
		s.waiting[string(body)] = true
	}
}

// is holds that no body has two ids. The mutex is held.
func (s *storm) is(id, body string) {
	if other := s.ids[id]; other != "" && other != body {
		s.t.Errorf("message %s has two bodies: %.40q, %.40q", id, other, body)
	}
	if other := s.bodies[body]; other != "" && other != id {
		s.t.Errorf("one draft became two messages: %s, %s", other, id)
	}
	s.ids[id], s.bodies[body] = body, id
}

// saw notes a delivery. One of a message that is over must not be good any more: its answer came late.
func (s *storm) saw(m fairqueue.Message) {
	if string(m.Body) == "tick" {
		return
	}
	s.mu.Lock()
	s.is(m.ID, string(m.Body))
	again := s.settled[m.ID]
	s.mu.Unlock()
	if !again {
		return
	}
	good, err := s.direct.Extend(s.t.Context(), time.Second, m.Receipt)
	if err == nil && good[0] {
		s.t.Errorf("message %s came again after its end: %+v", m.ID, m)
	}
}

// excuse notes that the message of a body was handled, or may be removed.
func (s *storm) excuse(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excused[body] = true
	delete(s.waiting, body)
}

func (s *storm) handled(m fairqueue.Message) {
	s.excuse(string(m.Body))
	s.note("handle", nil)
}

// over notes that a message cannot come again.
func (s *storm) over(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled[id] = true
}

// dies notes that messages may be dead soon.
func (s *storm) dies(messages ...fairqueue.Message) {
	for _, m := range messages {
		if s.dropsDead {
			s.excuse(string(m.Body))
		}
	}
}

// someIDs returns up to n ids of messages that were written lately. The caller may remove them.
func (s *storm) someIDs(r *rand.Rand, n int, remove bool) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.recent[max(0, len(s.recent)-100):]
	for range min(n, len(last)) {
		id := pick(r, last...)
		ids = append(ids, id)
		if remove {
			s.excused[s.ids[id]] = true
			delete(s.waiting, s.ids[id])
		}
	}
	return ids
}
