package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// views is a walk through everything that can be looked at. Another user made the
// structures.
var views = []stop{
	{name: "icks", walk: viewIcks, of: []string{"an Ick"}},
	{name: "channels", walk: viewChannels, of: []string{"a channel's Icks"}},
	{name: "queues", walk: viewQueues},
	{name: "leases", walk: viewLeases},
	{name: "hashes", walk: viewHashes},
	{name: "keys", walk: viewKeys},
	{name: "tracker", walk: viewTracker},
	{name: "counters", walk: viewCounters, of: []string{"a counter, set or list"}},
	{name: "totals", walk: viewTotals},
	{name: "doctor", walk: walkDoctor, may: dispensableToDoctor},
	{name: "survey", walk: viewSurvey, of: []string{"an Ick", "a channel's Icks"}},
	{name: "idle connection", walk: walkIdle},
}

func viewIcks(w *walker) {
	k := w.admin.ick(ick.Config{})
	_, err := k.AddNow(w, "a", "b")
	w.must("AddNow", err)
	r, err := k.Reserve(w, 1)
	w.must("Reserve", err)
	_, err = k.Commit(w, r.Token, r.Members()...)
	w.must("Commit", err)

	k = w.ick(ick.Config{})
	w.found("List", w.name, ick.List(w, w.client))
	_, err = k.Stats(w)
	w.must("Stats", err)
	for _, err := range k.Parked(w) {
		w.must("Parked", err)
	}
}

func viewChannels(w *walker) {
	channel := func(w *walker) *ick.Channel {
		c, err := ick.NewChannel(w.client, w.name, ick.ChannelConfig{})
		w.must("ick.NewChannel", err)
		return c
	}
	made := channel(w.admin)
	w.must("Resize", made.Resize(w, 3))
	_, err := made.AddNow(w, members(10)...)
	w.must("AddNow", err)
	w.found("ListChannels", w.name, ick.ListChannels(w, w.client))
	_, err = channel(w).Stats(w)
	w.must("Stats", err)
}

func viewQueues(w *walker) {
	q := w.admin.queue(fairqueue.Config{})
	for _, delay := range []time.Duration{0, 0, 0, time.Hour} {
		_, err := q.Write(w, fairqueue.Draft{Tenant: "a", Delay: delay})
		w.must("Write", err)
	}
	w.take(q, fairqueue.ReadConfig{})
	_, err := q.Nack(w, fairqueue.NackConfig{Dead: true}, w.take(q, fairqueue.ReadConfig{}).Receipt)
	w.must("Nack", err)

	q = w.queue(fairqueue.Config{})
	w.found("List", w.name, fairqueue.List(w, w.client))
	_, err = q.Stats(w)
	w.must("Stats", err)
	_, err = q.Len(w)
	w.must("Len", err)
	for _, place := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed} {
		messages, _, err := q.Browse(w, fairqueue.BrowseConfig{State: place})
		w.must("Browse", err)
		if len(messages) != 1 {
			w.must("Browse", fmt.Errorf("%d messages %s, want 1", len(messages), place))
		}
	}
	for _, err := range q.Dead().All(w) {
		w.must("Dead", err)
	}
	w.longFlow(w.admin.queue(fairqueue.Config{}))
	w.look(q)
}

func viewLeases(w *walker) {
	locker := func(w *walker) *lease.Locker {
		l, err := lease.New(w.client, lease.Config{})
		w.must("lease.New", err)
		return l
	}
	_, err := locker(w.admin).Acquire(w, w.name, time.Minute, lease.AcquireConfig{})
	w.must("Acquire", err)
	info, err := locker(w).Show(w, w.name)
	if err == nil && !info.Held {
		err = errors.New("the lease is not held")
	}
	w.must("Show", err)
	w.found("List", w.name, lease.List(w, w.client))
}

func viewHashes(w *walker) {
	open := func(w *walker) *expiry.Hashes {
		h, err := expiry.Open(w, w.client, w.name, expiry.Config{Shards: 1})
		w.must("Open", err)
		return h
	}
	_, err := open(w.admin).Set(w, "h", "f", []byte("1"), expiry.SetConfig{TTL: time.Hour})
	w.must("Set", err)
	w.found("List", w.name, expiry.List(w, w.client))
	h := open(w)
	_, err = h.Stats(w)
	w.must("Stats", err)
	w.found("Names", "h", h.Names(w))
	_, _, err = h.Get(w, "h", "f")
	w.must("Get", err)
	_, err = h.GetMany(w, "h", "f", "g")
	w.must("GetMany", err)
	_, err = h.GetAll(w, "h")
	w.must("GetAll", err)
	for _, err := range h.Scan(w, "h") {
		w.must("Scan", err)
	}
	_, err = h.Len(w, "h")
	w.must("Len", err)
}

func viewKeys(w *walker) {
	open := func(w *walker) *pinned.Keys {
		k, err := pinned.Open(w, w.client, w.name, pinned.Config{Shards: 1})
		w.must("Open", err)
		return k
	}
	_, err := open(w.admin).Set(w, "a", []byte("1"), time.Hour, pinned.SetConfig{})
	w.must("Set", err)
	w.found("List", w.name, pinned.List(w, w.client))
	k := open(w)
	_, err = k.Stats(w)
	w.must("Stats", err)
	_, _, err = k.Get(w, "a")
	w.must("Get", err)
}

func viewTracker(w *walker) {
	open := func(w *walker) *tracker.Tracker {
		t, err := tracker.New(w.client, w.name, tracker.Config{})
		w.must("tracker.New", err)
		return t
	}
	w.must("Add", open(w.admin).Add(w, "a"))
	t := open(w)
	_, err := t.Queued(w, "a")
	w.must("Queued", err)
	_, err = t.Stats(w)
	w.must("Stats", err)
}

func viewCounters(w *walker) {
	made := w.admin.counters()
	defer made.Close()
	w.fill(made)
	sc := w.counters()
	defer sc.Close()
	w.gather(sc)
}

func viewTotals(w *walker) {
	_, err := upkeep.ReadTotals(w, w.client)
	w.must("ReadTotals", err)
}

// viewSurvey looks at one of each.
func viewSurvey(w *walker) {
	viewIcks(w)
	viewQueues(w)
	viewLeases(w)
	viewHashes(w)
	viewKeys(w)
	walkSurvey(w)
}
