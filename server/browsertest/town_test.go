package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/schedule/cron"
	"github.com/millrace/millrace/server"
	"github.com/millrace/millrace/steal"
)

// town is a Redis in which something of everything is going on, and a service that
// shows it.
type town struct {
	client rueidis.Client
	orders *fairqueue.Queue
	search *ick.Ick
	url    string // of the pages
	end    func() // ends the service
	batch  string // the id of an open batch of the queue imports
}

// build fills a Redis and starts a service on it.
func build(t *testing.T, actions bool) *town {
	t.Helper()
	town := &town{client: redistest.Start(t, redistest.Options{}).Client(t)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	var err error
	town.orders, err = fairqueue.New(town.client, "orders", fairqueue.Config{MaxAttempts: 1})
	must(err)
	for tenant := range 40 {
		drafts := make([]fairqueue.Draft, 1+tenant%7)
		for i := range drafts {
			drafts[i] = fairqueue.Draft{
				Tenant:  fmt.Sprintf("tenant-%02d", tenant),
				Body:    fmt.Appendf(nil, `{"order": %d, "items": [{"sku": "A-%d", "n": %d}], "note": "leave at the door"}`, 1000+i, tenant, i+1),
				Headers: map[string]string{"content-type": "application/json"},
			}
			if i == 6 {
				drafts[i].Delay = time.Hour
			}
		}
		_, err := town.orders.WriteBatch(ctx, drafts...)
		must(err)
	}
	flood := make([]fairqueue.Draft, 300)
	for i := range flood {
		flood[i] = fairqueue.Draft{Tenant: "noisy", Body: []byte("x")}
	}
	_, err = town.orders.WriteBatch(ctx, flood...)
	must(err)
	taken, err := town.orders.Read(ctx, fairqueue.ReadConfig{Max: 30, Visibility: time.Hour})
	must(err)
	for i, m := range taken[:20] {
		if i < 3 {
			_, err := town.orders.Nack(ctx, fairqueue.NackConfig{Dead: true, Reason: "the address does not exist"}, m.Receipt)
			must(err)
			continue
		}
		_, err := town.orders.Ack(ctx, m.Receipt)
		must(err)
	}
	spec, err := cron.Parse("30 2 * * *", "Europe/Berlin")
	must(err)
	must(town.orders.Schedules().Set(ctx, fairqueue.Schedule{Name: "daily", Spec: spec, Draft: fairqueue.Draft{Tenant: "acme", Body: []byte(`{"report": "daily"}`)}}))
	town.batch = town.imports(t)
	emails, err := fairqueue.New(town.client, "emails", fairqueue.Config{Streams: 16, PerTenant: 2})
	must(err)
	_, err = emails.WriteBatch(ctx, fairqueue.Draft{Tenant: "acme", Body: []byte("welcome")}, fairqueue.Draft{Tenant: "globex", Body: []byte{0xff, 0x00, 0x7f}})
	must(err)
	must(emails.Pause(ctx))
	town.consume(t)

	town.search, err = ick.New(town.client, "search", ick.Config{})
	must(err)
	for i := range 500 {
		_, err := town.search.AddNow(ctx, fmt.Sprintf("doc:%d", i%120))
		must(err)
	}
	reserved, err := town.search.Reserve(ctx, 40)
	must(err)
	_, err = town.search.Commit(ctx, reserved.Token, "doc:0", "doc:1", "doc:2")
	must(err)
	parkOne(t, town.search)

	locker, err := lease.New(town.client, lease.Config{})
	must(err)
	for _, name := range []string{"nightly-report", "billing-run"} {
		_, err := locker.Acquire(ctx, name, time.Hour, lease.AcquireConfig{Metadata: "worker-7 on host b"})
		must(err)
	}
	sessions, err := expiry.Open(ctx, town.client, "sessions", expiry.Config{})
	must(err)
	for i := range 50 {
		_, err := sessions.Set(ctx, fmt.Sprintf("user:%d", i), "token", []byte("3f9a"), expiry.SetConfig{TTL: time.Hour})
		must(err)
	}
	counters, err := scatter.New(scatter.Clients(town.client), scatter.Config{})
	must(err)
	defer counters.Close()
	session := counters.Session("ad:17")
	session.Add("impressions", 128_404)
	must(session.Flush(ctx))

	town.steal(t)
	town.serve(t, "127.0.0.1:0", server.Config{Client: town.client, Actions: actions})
	return town
}

// consume has a queue in which two tenants have slow handlers, so that they are held, and
// a third floods.
func (o *town) consume(t *testing.T) {
	t.Helper()
	q, err := fairqueue.New(o.client, "reports", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(tenant string, n int) {
		drafts := make([]fairqueue.Draft, n)
		for i := range drafts {
			drafts[i] = fairqueue.Draft{Tenant: tenant, Body: []byte("{}")}
		}
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
	}
	write("customer-00", 1) // so that there is a queue, and initech is not alone in it
	ctx, end := context.WithCancel(t.Context())
	handler := func(ctx context.Context, m fairqueue.Message) error {
		if strings.HasPrefix(m.Tenant, "customer") {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	var ended sync.WaitGroup
	for i, name := range []string{"worker-1", "worker-2", "importer"} {
		ended.Go(func() {
			cfg := fairqueue.ConsumeConfig{Name: name, Concurrency: 10 + 10*i, Drain: time.Millisecond, Visibility: time.Hour}
			if err := q.Consume(ctx, cfg, handler); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { end(); ended.Wait() })
	redistest.Eventually(t, "three readers", func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && len(stats.Readers) == 3
	})
	write("initech", 60)
	write("a tenant with quite a long name, as some have: Umbrella Biologicals of Raccoon City", 25)
	write("globex", 400)
	for i := range 20 {
		write(fmt.Sprintf("customer-%02d", i), 1+i%4)
	}
	redistest.Eventually(t, "flows are held", func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && slices.ContainsFunc(stats.Flows, func(f queuestats.Flow) bool { return f.Held })
	})
}

// parkOne has a member of an Ick fail.
func parkOne(t *testing.T, k *ick.Ick) {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	handler := func(_ context.Context, batch []ick.Entry) error {
		enough()
		return ick.Failed(errors.New("the document is too large"), batch[0].Member)
	}
	if err := k.Consume(ctx, ick.ConsumeConfig{Batch: 1, MaxAttempts: 1}, handler); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// steal has a recruiter do upkeep, and tell all processes of it.
func (o *town) steal(t *testing.T) {
	t.Helper()
	recruiter := steal.New(steal.Config{})
	if err := upkeep.Install(recruiter, o.client); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		recruiter.Enlist(t.Context())
	}
	ctx, end := context.WithCancel(t.Context())
	end() // Publish writes the totals at the end
	if err := upkeep.Publish(ctx, recruiter, o.client, upkeep.PublishConfig{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// serve serves until the test, or end, ends it.
func (o *town) serve(t *testing.T, addr string, cfg server.Config) {
	t.Helper()
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	o.url = "http://" + listener.Addr().String()
	o.end = sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(o.end)
}

// imports makes a queue with batches in each state, and returns the id of an open one.
func (o *town) imports(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := fairqueue.New(o.client, "imports", fairqueue.Config{})
	must(err)
	batch := func(total, written, handled int) string {
		id, err := q.Batches().Create(ctx, total, fairqueue.Draft{Tenant: "acme", Body: []byte("the import is done")})
		must(err)
		for range written {
			_, err := q.Write(ctx, fairqueue.Draft{Tenant: "acme", Batch: id, Body: []byte("rows")})
			must(err)
		}
		for range handled {
			messages, err := q.Read(ctx, fairqueue.ReadConfig{})
			must(err)
			_, err = q.Ack(ctx, messages[0].Receipt)
			must(err)
		}
		return id
	}
	batch(2, 2, 2)
	open := batch(300, 40, 31)
	must(second(q.Batches().Cancel(ctx, batch(0, 12, 3))))
	batch(0, 5, 0)
	return open
}

func second[T any](_ T, err error) error { return err }
