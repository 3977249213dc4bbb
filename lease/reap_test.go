package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// reapRound goes round the index once, and returns the most that a slice found.
func reapRound(t *testing.T, job millrace.Job) millrace.Progress {
	t.Helper()
	most := millrace.Idle
	for range registry.DueShards / reapShards {
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, progress)
	}
	return most
}

// TestReapJob removes the abandoned leases among others, in bounded slices.
func TestReapJob(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	const each = 1500 // more than one round takes
	var names []string
	for i := range each {
		names = append(names, fmt.Sprint("abandoned", i))
	}
	for _, name := range names {
		acquire(t, l, name, long)
	}
	registry.Settle(t.Context(), l.run.Client)
	for _, name := range names {
		abandon(t, l, name)
	}
	for _, name := range []string{"held", "expired"} {
		acquire(t, l, name, long)
		due(t, l, name)
	}
	pass(t, l, "expired")
	if err := acquire(t, l, "released", long).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, l.run.Client, "SET", baseKey("foreign"), "x")
	for _, name := range []string{"released", "foreign", "gone"} {
		due(t, l, name)
	}
	job := l.reapJob()
	keys := func() int64 { return integer(t, l.run.Client, "DBSIZE") }
	before, slices := keys(), 0
	found := map[millrace.Progress]int{}
	left := func() (n int) {
		for name := range list(t, l.run.Client, "abandoned") {
			_ = name
			n++
		}
		return n
	}
	for left() > 0 && slices < 100 {
		had := keys()
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices++
		found[progress]++
		if reaped := had - keys(); reaped > reapShards*reapBatch+reapShards { // and emptied shards of the index
			t.Errorf("a slice reaped %d", reaped)
		}
	}
	if slices < each/(reapShards*reapBatch) || found[millrace.More] == 0 {
		t.Errorf("%d slices reaped %d: %v, want several, some of them full", slices, before-keys(), found)
	}
	if progress := reapRound(t, job); progress != millrace.Idle {
		t.Errorf("a round with nothing left = %v, want idle", progress)
	}
	if !exists(t, l, "held") || !exists(t, l, "expired") || !exists(t, l, "released") || !exists(t, l, "foreign") {
		t.Error("reaped too much")
	}
	for name, want := range map[string]time.Duration{
		"held": long + time.Minute, "expired": time.Minute, "released": time.Minute, "foreign": reapClaim,
	} {
		// The registry repeats an entry whose reply was late, and then the lease is due as if it had been acquired just now.
		redistest.Eventually(t, fmt.Sprintf("%s is looked at again in about %v", name, want), func() bool {
			if left, ok := score(t, l, name); ok && left <= want+time.Second && left >= want-20*time.Second {
				return true
			}
			due(t, l, name)
			reapRound(t, job)
			return false
		})
	}
	if _, ok := score(t, l, "gone"); ok {
		t.Error("what is gone stays in the index")
	}
}

// TestIndex follows a lease through the index.
func TestIndex(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	wantSoon := func(what string) {
		t.Helper()
		if left, ok := score(t, l, "x"); !ok || left > registry.DueAfter || left < registry.DueAfter-20*time.Second {
			t.Errorf("%s it is looked at in %v (%v), want in a minute", what, left, ok)
		}
	}
	lease := acquire(t, l, "x", time.Hour)
	wantSoon("after an acquire")
	for range 100 {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease = acquire(t, l, "x", time.Hour)
		if err := lease.Refresh(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if got := server.Info("commandstats")["cmdstat_zadd"]; !strings.HasPrefix(got, "calls=1,") {
		t.Errorf("ZADD after 301 calls: %s, want one", got)
	}

	// One that has been held for long is looked at when it would be abandoned, and when
	// it was released a minute later.
	due(t, l, "x")
	if progress := reapRound(t, l.reapJob()); progress != millrace.Idle {
		t.Errorf("reap of a held one = %v, want idle", progress)
	}
	if left, ok := score(t, l, "x"); !ok || left < time.Hour {
		t.Errorf("a held one is looked at again in %v (%v), want after its deadline", left, ok)
	}
	later := openOn(t, server.Client(t), Config{}) // remembers nothing, as after half a minute
	if err := later.Release(t.Context(), "x", lease.Token); err != nil {
		t.Fatal(err)
	}
	registry.Settle(t.Context(), later.run.Client)
	wantSoon("after a release")

	// A holder whose entry was lost enters it again.
	lease = acquire(t, later, "x", time.Hour)
	must(t, l.run.Client, "DEL", indexKey("x"))
	last := openOn(t, server.Client(t), Config{})
	if _, err := last.Refresh(t.Context(), "x", lease.Token, time.Hour); err != nil {
		t.Fatal(err)
	}
	registry.Settle(t.Context(), last.run.Client)
	wantSoon("after a refresh")
}

// TestNothingIsLeft: a minute after its release nothing is left of a lease, and a minute
// after its deadline nothing of one that was abandoned. The minutes pass at once.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	if err := acquire(t, l, "released", long).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "abandoned", long)
	must(t, l.run.Client, "PEXPIRE", baseKey("released"), "1")
	abandon(t, l, "abandoned")
	due(t, l, "released")
	job := l.reapJob()
	redistest.Eventually(t, "nothing is left", func() bool {
		reapRound(t, job)
		return integer(t, l.run.Client, "DBSIZE") == 0
	})
}

// TestEnteredMeanwhile: a lease that is acquired while the reaper finds nothing stays in the
// index.
func TestEnteredMeanwhile(t *testing.T) {
	t.Parallel()
	play := func(library *script.Library) (entered bool) {
		server := redistest.Start(t, redistest.Options{})
		holder := openOn(t, server.Client(t), Config{})
		reaper := openOn(t, server.Client(t), Config{Hooks: []millrace.Hook{&before{script: "lease.settle", do: func() {
			acquire(t, holder, "x", long)
			registry.Settle(t.Context(), holder.run.Client)
		}}}})
		reaper.run.Scripts = library
		due(t, holder, "x")
		reapRound(t, reaper.reapJob())
		_, entered = score(t, holder, "x")
		return entered
	}
	if !play(library) {
		t.Error("a lease that is held is not in the index")
	}
	if play(scripttest.Without(t, library, "or 0) == claimed then", "or 0) then")) {
		t.Error("an entry survives without a look at its score: this shows nothing")
	}
}

// before does something before the first call of a script.
type before struct {
	script string
	do     func()
	once   sync.Once
}

func (b *before) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Script == b.script {
		b.once.Do(b.do)
	}
	return ctx, nil
}

// TestClaim: two reapers do not visit the same leases, and names that a killed reaper took
// come again.
func TestClaim(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	due(t, l, "x")
	take := func() []string {
		_, names, err := l.due(withDeadline(t), indexKey("x"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if names := take(); len(names) != 1 {
		t.Fatalf("due = %q, want x", names)
	}
	if names := take(); len(names) != 0 {
		t.Errorf("due = %q, want nothing: it is another's", names)
	}
	if left, ok := score(t, l, "x"); !ok || left > reapClaim {
		t.Errorf("it is due again in %v (%v), want within %v", left, ok, reapClaim)
	}
}

func withDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestReapWithASilentNode: leases on the other masters are reaped all the same. The job
// has a slice of its usual length: work that a slice does not end is left alone for
// reapClaim, which on a busy machine happens in each of several short slices.
func TestReapWithASilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		alone := node.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
		must(t, alone, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	l := openOn(t, cluster.Client(t), Config{})
	silent := cluster.Nodes[1]
	var there []string
	for i := range 60 {
		name := fmt.Sprint(i)
		acquire(t, l, name, long)
		abandon(t, l, name)
		if cluster.MasterOf(baseKey(name)) != silent && cluster.MasterOf(indexKey(name)) != silent {
			there = append(there, name)
		}
	}
	silent.Pause()
	defer silent.Resume()
	job := l.reapJob()
	redistest.Eventually(t, "those of the living masters are reaped, and nothing is left of them in the index", func() bool {
		_, _ = job.Slice(t.Context())
		for _, name := range there {
			c := l.run.Client
			entry := c.Do(t.Context(), c.B().Zscore().Key(indexKey(name)).Member(name).Build())
			if exists(t, l, name) || !rueidis.IsRedisNil(entry.Error()) {
				return false
			}
		}
		return true
	})
	found := 0
	var failed error
	for _, err := range List(t.Context(), l.run.Client) {
		if err != nil {
			failed = err
			continue
		}
		found++
	}
	if !errors.Is(failed, millrace.ErrPartial) {
		t.Errorf("List = %v after %d names, want ErrPartial", failed, found)
	}
}

// TestShortLeases: leases that are released at once cost the index nothing.
func TestShortLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	const all = 500
	for i := range all {
		if err := acquire(t, l, fmt.Sprint(i), long).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	registry.Settle(t.Context(), l.run.Client)
	entered := int64(0)
	for shard := range registry.DueShards {
		entered += integer(t, l.run.Client, "ZCARD", registry.LeasesKey(shard))
	}
	if entered > all/2 { // those that a busy machine held for more than a moment
		t.Errorf("%d of %d leases that were released at once are in the index, want next to none", entered, all)
	}
}

// TestContendersEnter: a caller that finds a lease held enters it into the index, since its holder may
// have died before it did.
func TestContendersEnter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	acquire(t, l, "x", long)
	registry.Settle(t.Context(), l.run.Client)
	must(t, l.run.Client, "DEL", indexKey("x"))
	other := openOn(t, server.Client(t), Config{})
	_, err := other.Acquire(t.Context(), "x", long, AcquireConfig{})
	wantError(t, err, ErrHeld)
	if _, ok := score(t, other, "x"); !ok {
		t.Error("a lease that was found held is not in the index")
	}
}
