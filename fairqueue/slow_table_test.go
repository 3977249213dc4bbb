package fairqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// tableHandlers are the handlers of each cell, over all of its processes.
const tableHandlers = 10

// shop is a queue on one server, or one of parts.
type shop interface {
	WriteBatch(ctx context.Context, drafts ...fairqueue.Draft) ([]fairqueue.Written, error)
	Read(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error)
	Ack(ctx context.Context, receipts ...string) (int, error)
	Consume(ctx context.Context, cfg fairqueue.ConsumeConfig, handler fairqueue.Handler) error
}

// cell is one way in which readers and a queue come together.
type cell struct {
	handlers []int // of each process
	parts    int
	life     string // of the queue: it "exists" before its readers, is "new" behind them, or "made again"
	read     bool   // by Read with the name of a worker, instead of Consume

	perTenant int // parts of a tenant; 0 for both
}

func (c cell) String() string {
	reader := "Consume"
	if c.read {
		reader = "Read"
	}
	return fmt.Sprintf("%d of %d, %d parts, %s, %s", len(c.handlers), c.handlers[0], c.parts, c.life, reader)
}

// cells are all of the table. Without make more some of them are left out, and each value of each column stays.
func cells() (all []cell) {
	for i, handlers := range []int{10, 1, 2} {
		for j, n := range []int{1, 2} {
			for k, life := range []string{"exists", "new", "made again"} {
				for l, read := range []bool{false, true} {
					if redistest.More() || (i+j+k+l)%2 == 0 {
						all = append(all, cell{slices.Repeat([]int{handlers}, tableHandlers/handlers), n, life, read, 0})
					}
				}
			}
		}
	}
	return all
}

// hand is a handler that is at a message that hangs.
type hand struct {
	since   time.Time
	release chan struct{}
}

// crew are the processes of a cell.
type crew struct {
	t      *testing.T
	cell   cell
	writer shop
	queues []*fairqueue.Queue // of the writer
	soon   bool               // a tenant without others is alone after half a second

	mu      sync.Mutex
	hanging []hand
	most    int // that hung at once
	served  map[string]bool
	over    chan struct{}
}

// newCrew starts the processes.
func newCrew(t *testing.T, c cell, soon bool, limits queuestats.Limits) *crew {
	t.Helper()
	w := &crew{t: t, cell: c, soon: soon, served: map[string]bool{}, over: make(chan struct{})}
	name := redistest.Name(t)
	open := func() (shop, []*fairqueue.Queue) { // with a client of its own, as a process has
		client := redistest.Shared(t).Client(t)
		var q shop
		var queues []*fairqueue.Queue
		if c.parts == 1 {
			one, err := fairqueue.New(client, name, fairqueue.Config{})
			w.must(err)
			q, queues = one, []*fairqueue.Queue{one}
		} else {
			several, err := parts.New(parts.Config{Parts: parts.On(client, name, c.parts), PerTenant: c.perTenant})
			w.must(err)
			q, queues = several, several.Parts()
		}
		if soon {
			fairqueue.SoonAlone(t, queues...)
		}
		return q, queues
	}
	w.writer, w.queues = open()
	if c.life == "exists" {
		w.limit(limits)
		w.write("first", "first:served first2:served")
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		close(w.over)
		running.Wait()
	})
	for i, n := range c.handlers {
		q, _ := open()
		name := fmt.Sprint("worker ", i)
		var pool *fairqueue.Pool
		if soon && c.parts > 1 {
			pool = fairqueue.SoonAlonePool(t, n)
		}
		if c.read {
			for range n {
				running.Go(func() {
					w.read(ctx, q, fairqueue.ReadConfig{Worker: name, Concurrency: n, Pool: pool, Block: -1, Visibility: time.Minute})
				})
			}
			continue
		}
		running.Go(func() {
			_ = q.Consume(ctx, fairqueue.ConsumeConfig{Name: name, Concurrency: n, Pool: pool, Visibility: time.Minute}, w.handle)
		})
	}
	switch c.life {
	case "exists":
		w.awaitServed("first:served", "first2:served")
	case "new":
		w.limit(limits)
	case "made again":
		w.write("before", strings.Repeat("before:x ", 20)+"before:served before2:served")
		w.awaitServed("before:served", "before2:served")
		for _, q := range w.queues {
			_, err := q.Delete(t.Context())
			w.must(err)
		}
		w.limit(limits)
	}
	return w
}

func (w *crew) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// limit sets the limits of the tenant slow, if there are some.
func (w *crew) limit(l queuestats.Limits) {
	w.t.Helper()
	if l == (queuestats.Limits{}) {
		return
	}
	var own fairqueue.OwnLimits
	if l.MaxShare > 0 {
		own.MaxShare = &l.MaxShare
	}
	if l.MaxInFlight > 0 {
		own.MaxInFlight = &l.MaxInFlight
	}
	if several, ok := w.writer.(*parts.Queue); ok {
		w.must(several.Limits().Set(w.t.Context(), "slow", own))
		return
	}
	w.must(w.queues[0].Limits().Set(w.t.Context(), "slow", own))
}

// write writes a message for each word, "tenant:body". The queue may be deleted at this moment.
func (w *crew) write(what, words string) {
	w.t.Helper()
	var drafts []fairqueue.Draft
	for word := range strings.FieldsSeq(words) {
		tenant, body, _ := strings.Cut(word, ":")
		drafts = append(drafts, fairqueue.Draft{Tenant: tenant, Body: []byte(body)})
	}
	if _, err := w.writer.WriteBatch(w.t.Context(), drafts...); err != nil {
		w.t.Fatalf("write %s: %v", what, err)
	}
}

// read is one handler of a worker that reads by itself.
func (w *crew) read(ctx context.Context, q shop, cfg fairqueue.ReadConfig) {
	for ctx.Err() == nil {
		messages, err := q.Read(ctx, cfg)
		if err != nil {
			continue // the queue may not exist yet
		}
		_ = w.handle(ctx, messages[0])
		_, _ = q.Ack(ctx, messages[0].Receipt)
	}
}

// handle hangs, or notes that the message was served.
func (w *crew) handle(_ context.Context, m fairqueue.Message) error {
	if string(m.Body) != "hang" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.served[m.Tenant+":"+string(m.Body)] = true
		return nil
	}
	h := hand{time.Now(), make(chan struct{})}
	w.mu.Lock()
	w.hanging = append(w.hanging, h)
	w.most = max(w.most, len(w.hanging))
	w.mu.Unlock()
	select {
	case <-h.release:
	case <-w.over:
	}
	return nil
}

func (w *crew) hangs() (now, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hanging), w.most
}

// releaseOne lets the handler return that has hung for longest, if for at least 100 ms.
func (w *crew) releaseOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hanging) == 0 || time.Since(w.hanging[0].since) < 100*time.Millisecond {
		return false
	}
	close(w.hanging[0].release)
	w.hanging = w.hanging[1:]
	return true
}

func (w *crew) isServed(words ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(words, func(word string) bool { return !w.served[word] })
}

func (w *crew) awaitServed(words ...string) {
	w.t.Helper()
	redistest.Eventually(w.t, fmt.Sprint("served: ", words), func() bool { return w.isServed(words...) })
}

// quiet has messages of quiet tenants, one of each, and their words.
func quiet(round string) (text string, words []string) {
	for i := range 10 {
		words = append(words, fmt.Sprintf("quiet%d:%s", i, round))
	}
	return strings.Join(words, " ") + " ", words
}

// awaitHangs waits until the tenant slow has at least so many handlers, and quiet tenants are served all the same. Then it has
// had as many at most.
func (w *crew) awaitHangs(least, most int) {
	w.t.Helper()
	redistest.Eventually(w.t, fmt.Sprintf("%d handlers hang", least), func() bool { now, _ := w.hangs(); return now >= least })
	for round := range 3 {
		text, words := quiet(fmt.Sprint("round", round))
		w.write("quiet ones", text)
		w.awaitServed(words...)
	}
	if _, got := w.hangs(); got > most {
		w.t.Errorf("the slow tenant had %d of %d handlers, want at most %d", got, tableHandlers, most)
	}
}

// TestSlowTable: the rule for slow tenants, MaxShare and MaxInFlight hold from the first message on, however the handlers are
// divided into processes, over parts, before and after a queue is made, and for named workers of Read as for Consume.
func TestSlowTable(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat("slow:hang ", 30)
	for name, column := range map[string]func(*testing.T, cell){
		"handlers that do not return": func(t *testing.T, c cell) {
			w := newCrew(t, c, false, queuestats.Limits{})
			first, words := quiet("first")
			w.write("both", first+flood)
			w.awaitServed(words...)
			share := map[int]int{1: 5, 2: 6}[c.parts] // of each part half of 5, rounded up
			w.awaitHangs(share, share)
		},
		"quick, and then none returns": func(t *testing.T, c cell) {
			w := newCrew(t, c, false, queuestats.Limits{})
			first, words := quiet("first")
			w.write("quick ones", first+strings.Repeat("slow:quick ", 20)+"slow:last")
			w.awaitServed(append(words, "slow:last")...)
			w.write("the flood", flood)
			redistest.Eventually(t, "half of the handlers hang", func() bool { now, _ := w.hangs(); return now >= 5 })
			second, words := quiet("second")
			w.write("quiet ones", second)
			released, last := 0, time.Time{} // a part knows that the tenant is slow when one of its handlers has returned
			redistest.Eventually(t, "quiet tenants are served", func() bool {
				if w.isServed(words...) {
					return true
				}
				if time.Since(last) > time.Second && w.releaseOne() { // perhaps one of the other part
					released, last = released+1, time.Now()
				}
				return false
			})
			if now, _ := w.hangs(); now == 0 {
				t.Errorf("quiet tenants were served after all handlers had returned, %d", released)
			}
		},
		"alone again": func(t *testing.T, c cell) {
			w := newCrew(t, c, true, queuestats.Limits{})
			all := func() bool { now, _ := w.hangs(); return now == tableHandlers }
			first, words := quiet("first")
			w.write("both", first+flood)
			redistest.Eventually(t, "half of the handlers hang", func() bool { now, _ := w.hangs(); return now >= 5 })
			second, more := quiet("second") // now the last message is another tenant's
			w.write("quiet ones", second)
			redistest.Eventually(t, "quiet tenants are served, unless half a second passes before", func() bool { return w.isServed(append(words, more...)...) || all() })
			redistest.Eventually(t, "it has all handlers", all)
		},
		"MaxShare": func(t *testing.T, c cell) {
			w := newCrew(t, c, false, queuestats.Limits{Weight: 1, MaxShare: 0.4})
			w.write("the flood", flood)
			w.awaitHangs(4, 4)
		},
		"MaxInFlight": func(t *testing.T, c cell) {
			w := newCrew(t, c, false, queuestats.Limits{Weight: 1, MaxInFlight: 4})
			w.write("the flood", flood)
			w.awaitHangs(4, 4)
		},
	} {
		for _, c := range cells() {
			t.Run(name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				column(t, c)
			})
		}
	}
}

// TestAloneInOnePart: a tenant that has a part for itself leaves handlers to tenants of another part.
func TestAloneInOnePart(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{false, true} {
		for _, n := range []int{10, 2, 1} {
			c := cell{handlers: slices.Repeat([]int{n}, tableHandlers/n), parts: 2, life: "new", read: read, perTenant: 1}
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				w := newCrew(t, c, false, queuestats.Limits{})
				several := w.writer.(*parts.Queue)
				other := 0 // a tenant in the other part
				for several.PartsOf(fmt.Sprint("other", other))[0] == several.PartsOf("slow")[0] {
					other++
				}
				first := fmt.Sprintf("other%d:first", other)
				w.write("another tenant", first)
				w.awaitServed(first)
				w.write("the flood", strings.Repeat("slow:hang ", 30))
				redistest.Eventually(t, "handlers hang", func() bool { now, _ := w.hangs(); return now >= 3 })
				for round := range 5 {
					word := fmt.Sprintf("other%d:%d", other, round)
					w.write("another tenant", word)
					w.awaitServed(word)
				}
				if _, got := w.hangs(); got > 3 {
					t.Errorf("the slow tenant had %d of %d handlers, want half of its part's, 3", got, tableHandlers)
				}
			})
		}
	}
}

// TestSlowOverManyParts: where parts are many and processes small, a tenant has a handler in each of its two parts.
func TestSlowOverManyParts(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]queuestats.Limits{"slow": {}, "MaxShare": {Weight: 1, MaxShare: 0.25}} {
		for _, n := range []int{2, 1} {
			c := cell{handlers: slices.Repeat([]int{n}, tableHandlers/n), parts: 8, life: "exists", perTenant: 2}
			t.Run(name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				w := newCrew(t, c, false, limits)
				w.write("the flood", strings.Repeat("slow:hang ", 30))
				w.awaitHangs(2, 2)
			})
		}
	}
}
