package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/ring"
)

// homes returns, for each tag, the partitions that hold data of it, as the servers
// say.
func (tf *testFleet) homes() map[string][]int {
	tf.t.Helper()
	found := map[string][]int{}
	for id, server := range tf.masters {
		have := map[string]bool{}
		for key, err := range script.Scan(tf.t.Context(), server.Client(tf.t), "*") {
			must(tf.t, err)
			if !strings.HasPrefix(key, members.Base+":") && !have[Tag(key)] {
				have[Tag(key)] = true
				found[Tag(key)] = append(found[Tag(key)], id)
			}
		}
	}
	return found
}

// wantOneHome is invariant I8.
func (tf *testFleet) wantOneHome() {
	tf.t.Helper()
	for tag, homes := range tf.homes() {
		if len(homes) != 1 {
			tf.t.Errorf("the tag %s has the homes %v", tag, homes)
		}
	}
}

// TestAllocationRaces has many clients write for the same new tags at the same
// time, while partitions are added twice, half of the clients lose the directory
// now and then, and masters stop for moments. No tag ever has two homes, and all
// acknowledged writes are there.
func TestAllocationRaces(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	master := tf.masters[0]
	var clients []*Fleet
	var proxies []*redistest.Proxy
	for i := range 6 {
		dir := tf.dir
		if i%2 == 0 {
			proxy := redistest.NewTCPProxy(t, tf.dirs.Addr())
			proxies = append(proxies, proxy)
			dir = tf.dial(proxy.Addr())
		}
		clients = append(clients, tf.openBy(dir, Config{}))
	}
	ctx, stop := context.WithCancel(t.Context())
	var working, growing sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	next := 0
	round := func() (tag string) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return fmt.Sprint("t", next/(2*len(clients))) // each is new for all at the same time
	}
	for i, f := range clients {
		working.Go(func() {
			for ctx.Err() == nil {
				key := fmt.Sprintf("{%s}%d", round(), i)
				if set(ctx, f.Client(), key, "x") == nil {
					mu.Lock()
					acknowledged[key] = true
					mu.Unlock()
				}
			}
		})
	}
	growing.Go(func() {
		for range 2 {
			if _, err := grow.Add(ctx, tf.dir, tf.servers(2, 0), tf.growing(tf.dir)); err != nil {
				t.Error(err)
			}
		}
	})
	grown := make(chan struct{})
	go func() { growing.Wait(); close(grown) }()
	for over := false; !over; {
		proxy := proxies[rand.IntN(len(proxies))]
		proxy.Refuse(true)
		proxy.Cut()
		retry.Sleep(ctx, time.Duration(rand.Int64N(int64(2*quick.ViewTTL))))
		proxy.Heal()
		master.Pause()
		retry.Sleep(ctx, quick.ReplyTimeout/2)
		master.Resume()
		select {
		case <-grown:
			over = true
		default:
		}
	}
	stop()
	working.Wait()

	tf.wantOneHome()
	f := tf.open(Config{})
	used := map[int]bool{}
	for key := range acknowledged {
		if got, err := get(t.Context(), f.Client(), key); err != nil || got != "x" {
			t.Errorf("%s was acknowledged; it is %q, %v", key, got, err)
		}
		l, err := f.Locate(t.Context(), Tag(key))
		must(t, err)
		used[l.Partition] = true
	}
	if len(used) < 4 {
		t.Errorf("%d keys, all on the partitions %v: the new ones were not used", len(acknowledged), used)
	}
	t.Logf("%d writes acknowledged, %d partitions used", len(acknowledged), len(used))
}

// tagOwnedBy returns a tag that belongs to a new partition and belonged to an old
// one.
func tagOwnedBy(t *testing.T, m *directory.Map, id int) string {
	t.Helper()
	r, err := m.Ring()
	must(t, err)
	for i := 0; ; i++ {
		if tag := fmt.Sprint("tag", i); r.Owner(ring.Position(tag)) == id {
			return tag
		}
	}
}

// TestTheFloorKeepsOldMapsFromPlacing plays the race that two views can run, with
// views that are good for an hour, and takes the protection away once.
func TestTheFloorKeepsOldMapsFromPlacing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		scripts *script.Library
		homes   int
	}{
		{"with the floor", members.Scripts, 1},
		{"without", scripttest.Without(t, members.Scripts, "tonumber(ARGV[4]) < tonumber(floor)", "false"), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 0, unfenced)
			old, ctx := tf.open(Config{}), t.Context()
			old.use(tc.scripts)

			cfg, m := onTrust, old.view.Load().m
			m, err := cfg.Announce(ctx, tf.dir, m, tf.servers(1, 0))
			must(t, err)
			tag := tagOwnedBy(t, m, 1)
			// The old client has the map of before; no process waits out its grace.
			servers := failover.NewRedis(slowly)
			defer servers.Close()
			m = m.Next()
			m.Floor = m.Epoch + 1
			must(t, tf.dir.Change(ctx, m.Epoch-1, m))
			for i, p := range m.Partitions {
				must(t, servers.Raise(ctx, p.Master.Addr, m.Fleet, i, m.Floor, false))
			}
			m = m.Next()
			m.Partitions[1].Phase = directory.Open
			must(t, tf.dir.Change(ctx, m.Epoch-1, m))

			young := tf.open(Config{})
			must(t, put(ctx, young.Client(), "{"+tag+"}1", "x"))
			must(t, put(ctx, old.Client(), "{"+tag+"}2", "x"))
			if homes := tf.homes()[tag]; len(homes) != tc.homes {
				t.Errorf("the tag has the homes %v, want %d", homes, tc.homes)
			}
		})
	}
}

// TestNewPartitionsAreForLookUpsFirst: by the map that announces new partitions, clients look
// tags up there and place none.
func TestNewPartitionsAreForLookUpsFirst(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f, ctx := tf.open(Config{}), t.Context()
	cfg := onTrust
	m, err := cfg.Announce(ctx, tf.dir, f.view.Load().m, tf.servers(1, 0))
	must(t, err)
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
	before := tagOwnedBy(t, m, 1)
	must(t, put(ctx, f.Client(), "{"+before+"}", "x"))
	if homes := tf.homes()[before]; len(homes) != 1 || homes[0] != 0 {
		t.Errorf("the tag has the homes %v, want the old partition", homes)
	}
	if _, err := grow.Add(ctx, tf.dir, tf.servers(1, 0), tf.growing(tf.dir)); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("another Add in between = %v, want to be told to finish this one", err)
	}
	// The same call again finishes one that was cut off.
	again := []grow.Partition{{Master: m.Partitions[1].Master}}
	opened, err := grow.Add(ctx, tf.dir, again, tf.growing(tf.dir))
	must(t, err)
	if len(opened.Partitions) != 2 || opened.Partitions[1].Phase != directory.Open || opened.Adding() {
		t.Errorf("the map after Add is %+v", opened)
	}
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Epoch >= opened.Epoch })
	l, err := f.Locate(ctx, before)
	must(t, err)
	if l.How != Older || l.Partition != 0 || len(l.Asked) != 2 {
		t.Errorf("Locate = %+v, want it on partition 0 behind 1", l)
	}
	after := "y"
	for f.view.Load().ring.Owner(ring.Position(after)) != 1 {
		after += "y"
	}
	must(t, put(ctx, f.Client(), "{"+after+"}", "x"))
	if homes := tf.homes()[after]; len(homes) != 1 || homes[0] != 1 {
		t.Errorf("a new tag has the homes %v, want the new partition", homes)
	}
}

// TestGrowingMovesNothing doubles a fleet three times. Everything is found, with
// as many questions as the ring says.
func TestGrowingMovesNothing(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	f, ctx := tf.open(Config{}), t.Context()
	const tags = 200
	for i := range tags {
		must(t, put(ctx, f.Client(), fmt.Sprintf("{%d}", i), "x"))
	}
	before := tf.homes()
	for range 2 {
		_, err := grow.Add(ctx, tf.dir, tf.servers(len(tf.masters), 0), tf.growing(tf.dir))
		must(t, err)
	}
	grown := tf.open(Config{})
	asked := 0
	for i := range tags {
		l, err := grown.Locate(ctx, fmt.Sprint(i))
		must(t, err)
		if want := before[fmt.Sprint(i)][0]; l.Partition != want || l.How == Nowhere {
			t.Errorf("Locate(%d) = %+v, want partition %d", i, l, want)
		}
		asked += len(l.Asked)
	}
	if extra := float64(asked-tags) / tags; extra < 0.8 || extra > 1.2 {
		t.Errorf("%.2f questions more than one after two doublings, want about 1", extra)
	}
	tf.wantOneHome()
}

// TestAFullPartitionSendsTagsOn, by count of tags and by memory, until all are
// full; and everything is found again.
func TestAFullPartitionSendsTagsOn(t *testing.T) {
	t.Parallel()
	settings := calm
	settings.MaxTags = 5
	tf := startFleet(t, 3, 0, settings)
	f, ctx := tf.open(Config{}), t.Context()
	placed := 0
	var full error
	for i := range 100 {
		if full = set(ctx, f.Client(), fmt.Sprintf("{%d}", i), "x"); full != nil {
			break
		}
		placed++
	}
	if placed != 15 || !errors.Is(full, millrace.ErrFull) || millrace.Hint(full) == "" {
		t.Errorf("%d tags were placed, then %v; want 15, then ErrFull", placed, full)
	}
	other := tf.open(Config{})
	forwarded := 0
	for i := range placed {
		key := fmt.Sprintf("{%d}", i)
		if got, err := get(ctx, other.Client(), key); err != nil || got != "x" {
			t.Errorf("%s = %q, %v", key, got, err)
		}
		must(t, put(ctx, other.Client(), key+"again", "x"))
		l, err := other.Locate(ctx, fmt.Sprint(i))
		must(t, err)
		if l.How == Forwarded {
			forwarded++
		}
	}
	if forwarded == 0 {
		t.Error("no tag was forwarded")
	}
	tf.wantOneHome()
}

// TestFullByMemory: a server at its limit takes the small record that sends a tag
// on, and not the tag.
func TestFullByMemory(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, calm)
	f, ctx := tf.open(Config{}), t.Context()
	c := tf.masters[0].Client(t)
	memory := func(setting string) {
		must(t, c.Do(ctx, c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", setting).Build()).Error())
	}
	memory("1") // it is over it from the start
	for i := range 30 {
		must(t, put(ctx, f.Client(), fmt.Sprintf("{%d}", i), "x"))
	}
	if got := tf.homes(); len(got) != 30 {
		t.Errorf("%d tags are there, want 30", len(got))
	}
	for tag, homes := range tf.homes() {
		if homes[0] != 1 {
			t.Errorf("the tag %s is on %v, want it on the other partition", tag, homes)
		}
	}
	memory("0")
	must(t, put(ctx, f.Client(), "{30}", "x"))
	tf.wantOneHome()
}

// TestFullAndNotFullAtTheSameTime: one client finds a partition full and sends a tag on;
// another finds room there. The first to write the record is right.
func TestFullAndNotFullAtTheSameTime(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 3, 0, calm)
	one, two, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
	one.use(scripttest.Without(t, members.Scripts, "if full(ARGV[5], ARGV[6]) then", "if true then"))
	for i := range 50 {
		var racing sync.WaitGroup
		for j, f := range []*Fleet{one, two} {
			racing.Go(func() {
				if f == two { // the one with less work would always win
					retry.Sleep(ctx, rand.N(2*time.Millisecond))
				}
				if err := set(ctx, f.Client(), fmt.Sprintf("{%d}%d", i, j), "x"); err != nil {
					t.Error(err)
				}
			})
		}
		racing.Wait()
	}
	tf.wantOneHome()
	elsewhere := 0
	for i := range 50 {
		if l, err := two.Locate(ctx, fmt.Sprint(i)); err != nil {
			t.Error(err)
		} else if l.How == Forwarded {
			elsewhere++
		}
	}
	if elsewhere == 0 || elsewhere == 50 {
		t.Errorf("%d of 50 tags were forwarded: there was no race", elsewhere)
	}
}

// TestAForwarderGoesAway between writing the record and the tag's arrival.
func TestAForwarderGoesAway(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, calm)
	f, ctx := tf.open(Config{}), t.Context()
	v, _, err := f.confirmed(ctx)
	must(t, err)
	tag := tagOwnedBy(t, v.m, 0)
	_, home, err := v.partitions[0].placed(ctx, "forward", tag, "1", "1")
	if err != nil || home != 1 {
		t.Fatalf("forward = %d, %v", home, err)
	}
	if got, err := get(ctx, f.Client(), "{"+tag+"}"); got != "" || err != nil {
		t.Errorf("GET = %q, %v, want nothing", got, err)
	}
	must(t, put(ctx, f.Client(), "{"+tag+"}", "x"))
	status, err := f.Status(ctx)
	must(t, err)
	if got := status.Partitions[1].Tags; got != 1 {
		t.Errorf("partition 1 has %d tags, want 1", got)
	}
}

// TestPlacingSurvivesLostReplies repeats each step of placing whose reply is lost.
func TestPlacingSurvivesLostReplies(t *testing.T) {
	t.Parallel()
	tf, proxy := throughProxies(t, quick)
	f, ctx := tf.open(Config{}), t.Context()
	runs := func(command, name string) func(cmd []string) bool {
		text := map[string]string{"EVALSHA": members.Scripts.Script(name).SHA(), "EVAL": members.Scripts.Script(name).Source()}[command]
		return func(cmd []string) bool { return cmd[0] == command && cmd[1] == text }
	}
	for i, match := range []func(cmd []string) bool{
		runs("EVALSHA", "lookup"), runs("EVAL", "place"), runs("EVALSHA", "place"),
	} {
		proxy.DropReply(match)
		key := fmt.Sprintf("{%d}", i)
		must(t, retry.Policy{}.Do(ctx, func(int) error { return set(ctx, f.Client(), key, "x") }))
	}
	status, err := f.Status(ctx)
	must(t, err)
	if got := status.Partitions[0].Tags; got != 3 {
		t.Errorf("%d tags are counted, want 3", got)
	}
}

// TestCacheIsBounded puts in far more than it holds.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(640)
	for i := range 10_000 {
		c.put(fmt.Sprint(i), &placement{home: i, until: int64(i)})
		if got := c.get(fmt.Sprint(i)); got == nil || got.home != i {
			t.Fatalf("get after put = %+v", got)
		}
	}
	held := 0
	for i := range c.sets {
		for j := range c.sets[i] {
			if r := c.sets[i][j].Load(); r != nil {
				held++
			}
		}
	}
	if held < 640 || held > 4*640 {
		t.Errorf("%d placements are held, want 640 to 2560", held)
	}
	c.drop("9999")
	if c.get("9999") != nil {
		t.Error("a placement that was dropped is still there")
	}
}
