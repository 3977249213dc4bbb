package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
)

func open(t *testing.T, cfg Config) *Survey {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seen finds all names, however long that takes, and returns the View of one look.
func seen(t *testing.T, s *Survey) *View {
	t.Helper()
	s.list(t.Context())
	v, err := s.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// must returns a value that there must be: must(f())(t).
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// town is a Redis with something of every kind.
type town struct {
	client  rueidis.Client
	orders  *fairqueue.Queue
	docs    *ick.Ick
	lone    *ick.Ick // whose name looks like that of a channel's
	channel *ick.Channel
	hashes  *expiry.Hashes
	keys    *pinned.Keys
	locker  *lease.Locker
}

func settle(t *testing.T, client rueidis.Client) *town {
	t.Helper()
	ctx := t.Context()
	w := &town{
		client:  client,
		orders:  must(fairqueue.New(client, "orders", fairqueue.Config{}))(t),
		docs:    must(ick.New(client, "docs", ick.Config{}))(t),
		lone:    must(ick.New(client, "lone/0", ick.Config{}))(t),
		channel: must(ick.NewChannel(client, "pages", ick.ChannelConfig{Size: 3}))(t),
		hashes:  must(expiry.Open(ctx, client, "sessions", expiry.Config{Shards: 2}))(t),
		keys:    must(pinned.Open(ctx, client, "answers", pinned.Config{Shards: 2}))(t),
		locker:  must(lease.New(client, lease.Config{}))(t),
	}
	must(w.orders.WriteBatch(ctx, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"}, fairqueue.Draft{Tenant: "c", Delay: time.Hour}))(t)
	read := must(w.orders.Read(ctx, fairqueue.ReadConfig{}))(t)
	must(w.orders.Ack(ctx, read[0].Receipt))(t)
	future := func(member string) ick.Entry { return ick.Entry{Member: member, Score: 4e9} } // of age 0
	must(w.docs.Add(ctx, future("a"), future("b")))(t)
	must(w.docs.Add(ctx, future("a")))(t)
	must(w.docs.Reserve(ctx, 1))(t)
	must(w.lone.Add(ctx, future("a")))(t)
	must(w.channel.Add(ctx, future("a"), future("b"), future("c"), future("d")))(t)
	must(w.hashes.Set(ctx, "alice", "token", []byte("x"), expiry.SetConfig{TTL: time.Hour}))(t)
	must(w.keys.Set(ctx, "answer", []byte("42"), time.Hour, pinned.SetConfig{}))(t)
	must(w.locker.Acquire(ctx, "held", time.Hour, lease.AcquireConfig{Metadata: "me"}))(t)
	released := must(w.locker.Acquire(ctx, "released", time.Hour, lease.AcquireConfig{}))(t)
	registry.Settle(ctx, client) // one that is held for a moment only is not listed
	if err := released.Release(ctx); err != nil {
		t.Fatal(err)
	}
	w.publish(t)
	return w
}

// publish publishes a recruiter's numbers.
func (w *town) publish(t *testing.T) {
	t.Helper()
	recruiter := steal.New(steal.Config{})
	err := recruiter.Install(millrace.Job{Name: "sweep", Slice: func(context.Context) (millrace.Progress, error) {
		return millrace.Worked, nil
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	recruiter.Enlist(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := upkeep.Publish(ctx, recruiter, w.client, upkeep.PublishConfig{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Publish = %v", err)
	}
}

// view returns the View of the town as its structures say themselves.
func (w *town) view(t *testing.T) *View {
	t.Helper()
	ctx := t.Context()
	return &View{
		Queues:   []fairqueue.Stats{must(w.orders.Stats(ctx))(t)},
		Icks:     []ick.Stats{must(w.docs.Stats(ctx))(t), must(w.lone.Stats(ctx))(t)},
		Channels: []ick.ChannelStats{must(w.channel.Stats(ctx))(t)},
		Hashes:   []expiry.Stats{must(w.hashes.Stats(ctx))(t)},
		Keys:     []pinned.Stats{must(w.keys.Stats(ctx))(t)},
		Leases:   []lease.Info{must(w.locker.Show(ctx, "held"))(t), must(w.locker.Show(ctx, "released"))(t)},
		Steal:    must(upkeep.ReadTotals(ctx, w.client))(t),
	}
}

// sameNumbers compares Views, except for fields that differ at another moment.
var sameNumbers = cmp.Options{
	cmpopts.IgnoreFields(View{}, "At", "Named", "Server", "Troubles", "LeftOut"),
	cmpopts.IgnoreFields(fairqueue.Stats{}, "At", "OldestAge"),
	cmpopts.IgnoreFields(queuestats.Flow{}, "OldestAge"),
	cmpopts.IgnoreFields(ick.Stats{}, "At"),
	cmpopts.IgnoreUnexported(ick.ChannelStats{}),
	cmpopts.IgnoreFields(lease.Info{}, "Remaining"),
	cmpopts.EquateEmpty(),
}

func wantNumbers(t *testing.T, what string, want, got *View) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameNumbers); diff != "" {
		t.Errorf("%s: the View (-want +got):\n%s", what, diff)
	}
}

// TestViewIsWhatStructuresSay: the numbers of a View are those of the structures.
func TestViewIsWhatStructuresSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "100mb"})
	w := settle(t, server.Client(t))
	s := open(t, Config{Client: w.client})
	before := time.Now()
	v := seen(t, s)
	want := w.view(t)
	if want.Queues[0].Waiting == 0 || want.Icks[0].Total == 0 || want.Channels[0].Waiting == 0 || want.Hashes[0].Hashes == 0 ||
		want.Keys[0].Keys == 0 || !want.Leases[0].Held || want.Steal.Jobs[0].Worked == 0 {
		t.Fatalf("the structures are empty: %+v", want)
	}
	wantNumbers(t, "first", want, v)
	if len(v.Troubles) > 0 {
		t.Errorf("troubles = %v", v.Troubles)
	}
	if v.At.Before(before) || v.Named.Before(before) || len(v.LeftOut) > 0 || v.Fleet != nil {
		t.Errorf("At = %s, Named = %s, LeftOut = %v, Fleet = %v", v.At, v.Named, v.LeftOut, v.Fleet)
	}
	if got, want := len(v.Server.Nodes), 1; got != want {
		t.Fatalf("%d servers, want %d", got, want)
	}
	n, info := v.Server.Nodes[0], server.Info("server")
	if n.Addr != server.Addr() || n.Version != software(info) || n.Role != "master" ||
		n.Memory == 0 || n.MaxMemory != 100<<20 || n.Clients == 0 || n.Evicted != 0 || v.Server.Memory() != n.Memory || v.Server.Ops() != n.Ops {
		t.Errorf("the server says %+v", n)
	}

	// Deleted structures vanish without trouble, and new ones are found.
	must(w.orders.Delete(t.Context()))(t)
	must(w.lone.Delete(t.Context()))(t)
	must(w.channel.Delete(t.Context()))(t)
	for _, key := range []string{"mr:hashes:{sessions}", "mr:keys:{answers}", "mr:lease:{held}"} {
		must(w.client.Do(t.Context(), w.client.B().Del().Key(key).Build()).AsInt64())(t)
	}
	want.Queues, want.Icks, want.Channels = nil, want.Icks[:1], nil
	want.Hashes, want.Keys, want.Leases = nil, nil, want.Leases[1:]
	v = must(s.survey(t.Context()))(t)
	wantNumbers(t, "what was deleted", want, v)
	if len(v.Troubles) > 0 {
		t.Errorf("troubles = %v", v.Troubles)
	}
	must(w.orders.Write(t.Context(), fairqueue.Draft{Tenant: "a"}))(t)
	want.Queues = []fairqueue.Stats{must(w.orders.Stats(t.Context()))(t)}
	wantNumbers(t, "what was made anew", want, seen(t, s))
}

// TestTroubles: a structure that cannot be read does not hide others.
func TestTroubles(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := settle(t, server.Client(t))
	s := open(t, Config{Client: w.client})
	seen(t, s)
	want := w.view(t)
	want.Queues, want.Icks, want.Keys, want.Steal = nil, want.Icks[1:], nil, upkeep.Totals{}
	do := func(args ...string) {
		t.Helper()
		if err := w.client.Do(t.Context(), w.client.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do("HSET", "mr:queue:{orders}", "version", "99")
	do("SET", "docs", "ick.v99")
	do("HSET", "mr:keys:{answers}", "version", "99")
	do("HSET", "mr:steal:{totals}", "version", "99")
	v := must(s.survey(t.Context()))(t)
	wantTroubles := []Trouble{
		{Ick, "docs", millrace.ErrVersion}, {Keys, "answers", millrace.ErrVersion}, {Queue, "orders", millrace.ErrVersion}, {Steal, "", millrace.ErrVersion},
	}
	if diff := cmp.Diff(wantTroubles, v.Troubles, cmp.Comparer(sameError)); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
	wantNumbers(t, "with trouble", want, v)
	if v.Away() != nil {
		t.Errorf("Away = %v, but the server answers", v.Away())
	}
}

// TestLeftOut: of many structures the first are looked at, and the others counted.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	for i := range most + 3 {
		q := must(fairqueue.New(client, fmt.Sprintf("q%04d", most+3-i), fairqueue.Config{Streams: 1, PerTenant: 1}))(t)
		must(q.Write(t.Context(), fairqueue.Draft{Tenant: "a"}))(t)
	}
	v := seen(t, open(t, Config{Client: client}))
	if diff := cmp.Diff(map[Kind]int{Queue: 3}, v.LeftOut); diff != "" {
		t.Errorf("LeftOut (-want +got):\n%s", diff)
	}
	if got, want := len(v.Queues), most; got != want {
		t.Fatalf("%d queues, want %d; troubles: %v", got, want, v.Troubles)
	}
	for i, q := range v.Queues {
		if got, want := q.Name, fmt.Sprintf("q%04d", i+1); got != want {
			t.Fatalf("queue %d = %s, want %s", i, got, want)
		}
	}
}

// TestServerRestarts: the View stays while the server is away, and goes on after.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	w := settle(t, server.Client(t))
	s := open(t, Config{Client: w.client})
	before := seen(t, s)

	server.Kill()
	began := time.Now()
	v, err := s.survey(t.Context())
	if err == nil || v.Away() == nil {
		t.Errorf("a look at a dead server = %v; Away = %v", err, v.Away())
	}
	if took := time.Since(began); took > 2*readTimeout {
		t.Errorf("it took %s", took)
	}
	if !v.At.Equal(before.At) || len(v.Troubles) != 1 {
		t.Errorf("the View is of %s, want %s; troubles: %v", v.At, before.At, v.Troubles)
	}
	wantNumbers(t, "while the server is away", before, v)

	server.Restart()
	redistest.Eventually(t, "the server is seen again", func() bool {
		v, err = s.survey(t.Context())
		return err == nil && len(v.Troubles) == 0
	})
	wantNumbers(t, "after it", w.view(t), v)
	if !v.At.After(before.At) {
		t.Errorf("the View is of %s, want a later time than %s", v.At, before.At)
	}
}

// TestSilentServer: a server that does not answer is away, and callers wait for it only
// briefly.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := settle(t, server.Client(t))
	s := open(t, Config{Client: w.client})
	before := seen(t, s)
	server.Pause()
	defer server.Resume()
	began := time.Now()
	v, err := s.Refresh(t.Context())
	if !errors.Is(err, errSilent) || !v.At.Equal(before.At) {
		t.Errorf("Refresh of a silent server = %v; the View is of %s, want %s", err, v.At, before.At)
	}
	if took, want := time.Since(began), refreshTimeout+readTimeout; took > 2*want {
		t.Errorf("it took %s, want about %s", took, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	if _, err := s.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Refresh = %v, want %v", err, context.DeadlineExceeded)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("a cancelled Refresh took %s", took)
	}
}

// TestRefusedInfo: a server that does not tell about itself is there all the same.
func TestRefusedInfo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := settle(t, server.Client(t))
	b := w.client.B()
	if err := w.client.Do(t.Context(), b.AclSetuser().Username("default").Rule("-info").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	v := seen(t, open(t, Config{Client: w.client}))
	if len(v.Troubles) != 1 || v.Troubles[0].Kind != Server || v.Troubles[0].Name != server.Addr() || v.Away() != nil {
		t.Errorf("troubles = %v, want one of the server", v.Troubles)
	}
	wantNumbers(t, "without INFO", w.view(t), v)
}

// TestRun: a survey that runs shows its watchers each change, and draws it.
func TestRun(t *testing.T) {
	t.Parallel()
	w := settle(t, redistest.Start(t, redistest.Options{}).Client(t))
	s := open(t, Config{Client: w.client})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	}()
	written := false
	for v := range s.Watch(ctx) {
		switch {
		case len(v.Queues) == 0:
		case !written:
			must(w.orders.Write(ctx, fairqueue.Draft{Tenant: "a"}))(t)
			written = true
		case v.Queues[0].Counters.Written == 4:
			return
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("New without a Client = %v, want %v", err, millrace.ErrBadArgument)
	}
}

// TestServerGoesDuringALook: if the server goes away during a look, the look's data is not
// shown.
func TestServerGoesDuringALook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	settle(t, server.Client(t))
	proxy := redistest.NewProxy(t, server.Addr())
	s := open(t, Config{Client: proxy.Client(t)})
	before := seen(t, s)
	gone := false
	proxy.DropReplyWhen(func(cmd []string) bool {
		gone = gone || strings.HasPrefix(cmd[0], "EVAL")
		return gone
	})
	v, err := s.survey(t.Context())
	if err == nil || !v.At.Equal(before.At) {
		t.Errorf("a look during which the server went = %v; the View is of %s, want %s", err, v.At, before.At)
	}
	wantNumbers(t, "after it", before, v)
	proxy.Heal()
	wantNumbers(t, "when it is back", before, must(s.survey(t.Context()))(t))
}
