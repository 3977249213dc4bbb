package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/schedule"
)

func (w *walker) ick(cfg ick.Config) *ick.Ick {
	k, err := ick.New(w.client, w.name, cfg)
	w.must("ick.New", err)
	return k
}

func walkIck(w *walker) {
	k := w.ick(ick.Config{Backwash: true})
	_, err := k.Add(w, ick.Entry{Member: "a", Score: 3}, ick.Entry{Member: "b", Score: 4}, ick.Entry{Member: "c", Score: 5})
	w.must("Add", err)
	first, err := k.Reserve(w, 2)
	w.must("Reserve", err)
	_, err = k.Add(w, ick.Entry{Member: "older", Score: 1}, ick.Entry{Member: "a", Score: 2})
	w.must("Add", err)
	second, err := k.Reserve(w, 2)
	w.must("Reserve, with backwash", err)
	_, err = k.Commit(w, first.Token, "a")
	w.fails("Commit of a stale reservation", err, millrace.ErrStale)
	_, _, err = k.Exchange(w, second.Token, second.Members(), 2)
	w.must("Exchange", err)
	_, err = k.Stats(w)
	w.must("Stats", err)
	w.found("List", w.name, ick.List(w, w.client))
	_, err = k.Delete(w)
	w.must("Delete", err)

	rested := w.ick(ick.Config{Settle: time.Millisecond})
	_, err = rested.AddNow(w, "a")
	w.must("AddNow", err)
	w.until("the mark has rested", func() (bool, error) {
		r, err := rested.Reserve(w, 1)
		return len(r.Entries) == 1, err
	})
	_, err = rested.ForceDelete(w)
	w.must("ForceDelete", err)
}

func walkIckConsumer(w *walker) {
	k := w.ick(ick.Config{})
	bad := make(chan struct{}, 100)
	handler := func(_ context.Context, batch []ick.Entry) error {
		if batch[0].Member == "bad" {
			bad <- struct{}{}
			return ick.Failed(nil, "bad")
		}
		return nil
	}
	parked := func() (n int, err error) {
		for _, err := range k.Parked(w) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	}
	cfg := ick.ConsumeConfig{MaxAttempts: 1, Batch: 1}
	w.consume(func(ctx context.Context) error { return k.Consume(ctx, cfg, handler) }, func() {
		_, err := k.AddNow(w, "good", "bad")
		w.must("AddNow", err)
		w.until("the bad one is parked", func() (bool, error) {
			n, err := parked()
			return n == 1, err
		})
		_, err = k.Retry(w, "bad")
		w.must("Retry", err)
		w.until("it is parked again", func() (bool, error) {
			n, err := parked()
			return n == 1 && len(bad) > 1, err
		})
	})
	_, err := k.Drop(w, "bad")
	w.must("Drop", err)

	// A member whose rest is over while no consumer runs.
	cfg = ick.ConsumeConfig{RetryDelay: time.Millisecond, Batch: 1}
	w.consume(func(ctx context.Context) error { return k.Consume(ctx, cfg, handler) }, func() {
		_, err := k.AddNow(w, "bad")
		w.must("AddNow", err)
		select {
		case <-bad:
		case <-w.Done():
			w.must("Consume", context.Cause(w))
		}
	})
	_, err = ick.Jobs(w.client)[0].Slice(w)
	w.must("ick.retry", err)
}

func walkChannel(w *walker) {
	c, err := ick.NewChannel(w.client, w.name, ick.ChannelConfig{Size: 2})
	w.must("ick.NewChannel", err)
	nothing := func(context.Context, []ick.Entry) error { return nil }
	w.consume(func(ctx context.Context) error { return c.Consume(ctx, ick.ConsumeConfig{}, nothing) }, func() {
		_, err := c.AddNow(w, members(10)...)
		w.must("AddNow", err)
		w.must("Resize", c.Resize(w, 1))
		w.until("one Ick is retired, and all is done", func() (bool, error) {
			s, err := c.Stats(w)
			return len(s.Icks) == 1 && s.Total == 0, err
		})
	})
	w.must("Resize", c.Resize(w, 3))
	_, err = c.AddNow(w, members(10)...)
	w.must("AddNow", err)
	_, err = ick.Jobs(w.client)[1].Slice(w)
	w.must("ick.tidy", err)
	w.found("ListChannels", w.name, ick.ListChannels(w, w.client))
	_, err = c.Delete(w)
	w.must("Delete", err)
}

func (w *walker) queue(cfg fairqueue.Config) *fairqueue.Queue {
	q, err := fairqueue.New(w.client, w.name, cfg)
	w.must("fairqueue.New", err)
	return q
}

// take reads one message, which may be due only in a moment.
func (w *walker) take(q *fairqueue.Queue, cfg fairqueue.ReadConfig) (m fairqueue.Message) {
	w.until("a message", func() (bool, error) {
		list, err := q.Read(w, cfg)
		if errors.Is(err, fairqueue.ErrEmpty) {
			return false, nil
		}
		if len(list) == 1 {
			m = list[0]
		}
		return len(list) == 1, err
	})
	return m
}

func walkQueue(w *walker) {
	q := w.queue(fairqueue.Config{Streams: 4, PerTenant: 2, MaxAttempts: 2})
	write := func(d fairqueue.Draft) string {
		id, err := q.Write(w, d)
		w.must("Write", err)
		return id
	}
	write(fairqueue.Draft{Tenant: "a", Body: []byte("1"), DedupeID: "x"})
	write(fairqueue.Draft{Tenant: "a", Body: []byte("1"), DedupeID: "x"})
	_, err := q.Ack(w, w.take(q, fairqueue.ReadConfig{}).Receipt)
	w.must("Ack", err)

	waiting, delayed := write(fairqueue.Draft{Tenant: "b"}), write(fairqueue.Draft{Tenant: "c", Delay: time.Hour})
	for _, place := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed} {
		_, _, err = q.Browse(w, fairqueue.BrowseConfig{State: place})
		w.must("Browse", err)
	}
	_, err = q.Cancel(w, waiting, delayed)
	w.must("Cancel", err)

	write(fairqueue.Draft{Tenant: "d"})
	m := w.take(q, fairqueue.ReadConfig{})
	_, err = q.Extend(w, time.Minute, m.Receipt)
	w.must("Extend", err)
	_, err = q.Nack(w, fairqueue.NackConfig{Delay: time.Millisecond}, m.Receipt)
	w.must("Nack", err)
	m = w.take(q, fairqueue.ReadConfig{})
	_, err = q.Nack(w, fairqueue.NackConfig{Reason: "odd"}, m.Receipt)
	w.must("Nack for the last time", err)
	write(fairqueue.Draft{Tenant: "d"})
	_, err = q.Nack(w, fairqueue.NackConfig{Dead: true}, w.take(q, fairqueue.ReadConfig{}).Receipt)
	w.must("Nack as dead", err)
	var dead []string
	for one, err := range q.Dead().All(w) {
		w.must("Dead", err)
		dead = append(dead, one.ID)
	}
	if len(dead) != 2 {
		w.must("Dead", fmt.Errorf("%d messages, want 2", len(dead)))
	}
	_, err = q.Dead().Redrive(w, dead[0])
	w.must("Redrive", err)
	_, err = q.Dead().Purge(w, dead[1])
	w.must("Purge", err)

	w.must("Pause", q.Pause(w))
	_, err = q.Read(w, fairqueue.ReadConfig{})
	w.fails("Read while paused", err, fairqueue.ErrPaused)
	w.must("Resume", q.Resume(w))
	w.must("Resize", q.Resize(w, 2, 1))
	w.must("Dead.Keep", q.Dead().Keep(w, 10, time.Hour))
	_, err = q.Len(w)
	w.must("Len", err)
	_, err = q.Stats(w)
	w.must("Stats", err)
	w.found("List", w.name, fairqueue.List(w, w.client))
	_, err = q.Delete(w)
	w.must("Delete", err)
}

// longFlow writes more messages of a tenant than lie in its record, and has two in flight.
func (w *walker) longFlow(q *fairqueue.Queue) {
	drafts := make([]fairqueue.Draft, 30)
	for i := range drafts {
		drafts[i].Tenant = "long"
	}
	_, err := q.WriteBatch(w, drafts...)
	w.must("WriteBatch", err)
	_, err = q.Read(w, fairqueue.ReadConfig{Max: 2})
	w.must("Read", err)
}

// look shows a long flow, and messages in flight page by page.
func (w *walker) look(q *fairqueue.Queue) {
	_, err := q.Stats(w)
	w.must("Stats", err)
	_, _, err = q.Browse(w, fairqueue.BrowseConfig{})
	w.must("Browse", err)
	_, next, err := q.Browse(w, fairqueue.BrowseConfig{State: fairqueue.InFlight, Max: 1})
	w.must("Browse", err)
	_, _, err = q.Browse(w, fairqueue.BrowseConfig{State: fairqueue.InFlight, Max: 1, After: next})
	w.must("Browse", err)
}

func receiptsOf(messages []fairqueue.Message) (receipts []string) {
	for _, m := range messages {
		receipts = append(receipts, m.Receipt)
	}
	return receipts
}

// walkTenants limits tenants and keeps a schedule.
func walkTenants(w *walker) {
	t := w.queue(fairqueue.Config{})
	a := "a"
	w.must("Limits.Set", t.Limits().Set(w, a, fairqueue.OwnLimits{Weight: new(2.0), Rate: new(100.0), MaxInFlight: new(10), MaxWaiting: new(100)}))
	for _, err := range t.Limits().All(w) {
		w.must("Limits.All", err)
	}
	_, err := t.WriteBatch(w, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "c"}, fairqueue.Draft{Tenant: "a", Delay: time.Hour})
	w.must("WriteBatch", err)
	w.longFlow(t)
	w.look(t)
	for {
		some, err := t.Read(w, fairqueue.ReadConfig{Max: 10})
		if errors.Is(err, fairqueue.ErrEmpty) {
			break
		}
		w.must("Read", err)
		_, err = t.Ack(w, receiptsOf(some)...)
		w.must("Ack", err)
	}
	_, err = t.WriteBatch(w, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "c"})
	w.must("WriteBatch", err)
	w.must("Limits.Pause", t.Limits().Pause(w, a, time.Hour))
	some, err := t.Read(w, fairqueue.ReadConfig{Max: 10})
	w.must("Read", err)
	_, err = t.Ack(w, some[0].Receipt)
	w.must("Ack", err)
	w.must("Limits.Resume", t.Limits().Resume(w, a))
	_, err = t.PurgeTenant(w, a)
	w.must("PurgeTenant", err)
	w.must("Limits.Clear", t.Limits().Clear(w, a))
	hourly, err := schedule.Every(time.Hour)
	w.must("Every", err)
	w.must("Schedules.Set", t.Schedules().Set(w, fairqueue.Schedule{Name: "s", Spec: hourly, Draft: fairqueue.Draft{Tenant: "a"}}))
	w.must("Schedules.Remove", t.Schedules().Remove(w, "s"))
	_, err = t.Delete(w)
	w.must("Delete", err)
}

// walkQueueReader has readers wait for messages, and one die.
func walkQueueReader(w *walker) {
	q := w.queue(fairqueue.Config{})
	handled := make(chan struct{}, 10)
	handler := func(context.Context, fairqueue.Message) error {
		handled <- struct{}{}
		return nil
	}
	w.consume(func(ctx context.Context) error { return q.Consume(ctx, fairqueue.ConsumeConfig{}, handler) }, func() {
		for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
			_, err := q.Write(w, fairqueue.Draft{Tenant: "a", Delay: delay})
			w.must("Write", err)
			select {
			case <-handled:
			case <-w.Done():
				w.must("Consume", context.Cause(w))
			}
		}
	})
	_, err := q.Write(w, fairqueue.Draft{Tenant: "a"})
	w.must("Write", err)
	w.take(q, fairqueue.ReadConfig{Visibility: 10 * time.Millisecond})
	_, err = q.Ack(w, w.take(q, fairqueue.ReadConfig{Block: time.Second}).Receipt)
	w.must("Ack", err)
}

// walkQueueUpkeep has the job do the work of a queue without readers.
func walkQueueUpkeep(w *walker) {
	q := w.queue(fairqueue.Config{IdleExpiry: 5 * time.Millisecond})
	job := fairqueue.Jobs(w.client)[0]
	_, err := q.Write(w, fairqueue.Draft{Tenant: "a", Delay: time.Millisecond})
	w.must("Write", err)
	w.work(job)
	m := w.take(q, fairqueue.ReadConfig{})
	_, err = q.Nack(w, fairqueue.NackConfig{Dead: true}, m.Receipt)
	w.must("Nack", err) // so that the queue stays
	_, err = q.Dead().Purge(w, m.ID)
	w.must("Purge", err)
	w.until("the queue expires", func() (bool, error) {
		_, err := job.Slice(w)
		n, failed := w.client.Do(w, w.client.B().Exists().Key("mr:queue:{"+w.name+"}").Build()).AsInt64()
		return n == 0, errors.Join(err, failed)
	})
}

// walkLegacy has two queues replace a stream: one in a group that is there, whose
// reader has died, and one in a group that is not.
func walkLegacy(w *walker) {
	w.did("XADD", w.name, "*", "f", "v")
	w.did("XGROUP", "CREATE", w.name, "old", "0")
	w.did("XREADGROUP", "GROUP", "old", "died", "STREAMS", w.name, ">")
	for _, group := range []string{"old", "new"} {
		w.did("XADD", w.name, "*", "f", "v")
		q, err := fairqueue.New(w.client, w.name+group, fairqueue.Config{Legacy: []fairqueue.Legacy{{Stream: w.name, Group: group, ClaimAfter: time.Millisecond}}})
		w.must("fairqueue.New", err)
		_, err = q.Ack(w, w.take(q, fairqueue.ReadConfig{}).Receipt)
		w.must("Ack", err)
	}
}

// walkShuffle has a queue replace a shuffle queue.
func walkShuffle(w *walker) {
	w.did("HSET", w.name+":meta", "streams", "2")
	w.did("XADD", w.name+":s1", "*", "f", "v")
	q, err := fairqueue.New(w.client, w.name+"shuffle", fairqueue.Config{Legacy: []fairqueue.Legacy{{Shuffle: w.name, Group: "new", ClaimAfter: time.Millisecond}}})
	w.must("fairqueue.New", err)
	_, err = q.Ack(w, w.take(q, fairqueue.ReadConfig{}).Receipt)
	w.must("Ack", err)
}

func walkLease(w *walker) {
	locker, err := lease.New(w.client, lease.Config{})
	w.must("lease.New", err)
	held, err := locker.Acquire(w, w.name, time.Minute, lease.AcquireConfig{})
	w.must("Acquire", err)
	_, err = locker.Acquire(w, w.name, time.Minute, lease.AcquireConfig{})
	w.fails("Acquire of a held one", err, lease.ErrHeld)
	_, err = locker.Show(w, w.name)
	w.must("Show", err)
	w.must("Refresh", held.Refresh(w, time.Minute))
	w.consume(func(ctx context.Context) error {
		_, err := locker.Do(ctx, w.name, time.Minute, lease.AcquireConfig{Wait: -1}, func(context.Context, int64) error { return nil })
		return err
	}, func() {
		w.until("somebody waits", func() (bool, error) {
			text, err := w.client.Do(w, w.client.B().Get().Key("mr:lease:{"+w.name+"}").Build()).ToString()
			return strings.HasSuffix(text, ";"), err
		})
		text, err := w.client.Do(w, w.client.B().Get().Key("mr:lease:{"+w.name+"}").Build()).ToString()
		w.must("GET", err)
		words := strings.SplitN(text, " ", 8) // docs/WIRE.md
		holder, err := strconv.Atoi(words[4])
		w.must("a lease", err)
		waiter, _, _ := strings.Cut(words[7][holder:], " ")
		w.did("LPUSH", fmt.Sprintf("mr:wake:{%d}:%s", crc32.ChecksumIEEE([]byte(waiter))%64, waiter), "another's")
		w.must("Release", held.Release(w))
		w.until("it was taken and released", func() (bool, error) {
			info, err := locker.Show(w, w.name)
			return info.Fence > held.Fence, err
		})
	})
	_, err = locker.Acquire(w, w.name+"-gone", time.Minute, lease.AcquireConfig{})
	w.must("Acquire", err)
	registry.Settle(w, w.client)
	w.did("EVAL", setLeaseBack, "1", "mr:lease:{"+w.name+"-gone}")
	for shard := range registry.DueShards {
		w.did("ZADD", registry.LeasesKey(shard), "XX", "1", w.name+"-gone")
	}
	w.work(lease.Jobs(w.client)[0])
	_, err = locker.Once(w, w.name+"-once", time.Minute, lease.Every(24*time.Hour), func(context.Context, int64) error { return nil })
	w.must("Once", err)
	_, err = locker.Acquire(w, w.name+"-held", time.Minute, lease.AcquireConfig{})
	w.must("Acquire", err)
	w.found("List", w.name+"-held", lease.List(w, w.client))
}
