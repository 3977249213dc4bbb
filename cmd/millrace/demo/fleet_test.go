package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/lease"
)

// soundFleet is a performance of the fleet scene in which all went well.
func soundFleet() *fleetPlay {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p := &fleetPlay{
		looks: []fleetLook{
			{at(0), []int64{0, 0, 0}, []int64{1, 1, 1}},
			{at(1), []int64{100, 200, 300}, []int64{1, 1, 1}},
			{at(2), []int64{150, 250, 350, 10}, []int64{1, 1, 2, 0}},
			{at(4), []int64{200, 300, 400, 60}, []int64{1, 1, 2, 5}},
			{at(5), []int64{300, 400, 600, 90}, []int64{1, 2, 2, 7}},
		},
		adding: at(1).Add(1), added: at(3),
		before: places{"old": {Partition: 1, How: fleet.Owner, Asked: []int{1}}},
		after:  places{"old": {Partition: 1, How: fleet.Older, Asked: []int{3, 1}}},
		homes: inventory{
			keys:  map[string][]int{"old": {1}, "new": {3}},
			homes: map[string][]int{"old": {1}, "new": {3}},
		},
		market: &market{
			customers: []*customer{{
				name: "customer:1", marks: map[string]bool{"1": true, "2": true}, jobs: map[string]bool{"1": true}, acked: 1,
			}},
			tickets: []*ticket{
				{held: &lease.Lease{}, asked: at(0), got: at(0).Add(time.Millisecond)},
				{held: &lease.Lease{}, asked: at(1), got: at(1).Add(9 * time.Millisecond)},
				{held: &lease.Lease{}, asked: at(4), got: at(4).Add(time.Second)},
			},
		},
	}
	t := &p.market.tally
	t.customers.Store(1)
	t.marks.Store(2)
	t.jobs.Store(1)
	t.found.Store(1)
	t.over.Store(1)
	return p
}

func TestEachCheckOfTheFleetSceneCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *fleetPlay, t *tally)
	}{
		{"", func(*fleetPlay, *tally) {}},
		{"nothing_moved", func(p *fleetPlay, _ *tally) { p.after["old"] = fleet.Location{Partition: 3, How: fleet.Owner} }},
		{"nothing_moved", func(p *fleetPlay, _ *tally) { p.after["old"] = fleet.Location{Partition: 1, How: fleet.Nowhere} }},
		{"nothing_moved", func(p *fleetPlay, _ *tally) { delete(p.homes.keys, "old") }},
		{"nothing_moved", func(p *fleetPlay, _ *tally) { p.before = nil }},
		{"one_home", func(p *fleetPlay, _ *tally) { p.homes.homes["new"] = []int{0, 3} }},
		{"one_home", func(p *fleetPlay, _ *tally) { p.homes.keys["new"] = []int{0, 3} }},
		{"one_home", func(p *fleetPlay, _ *tally) { p.homes.keys["new"] = []int{0} }},
		{"new_takes_tags", func(p *fleetPlay, _ *tally) { p.looks[4].tags[3] = p.looks[3].tags[3] }},
		{"marks_handed_out", func(p *fleetPlay, _ *tally) { p.market.customers[0].marks["1"] = false }},
		{"messages_handled", func(p *fleetPlay, _ *tally) { p.market.customers[0].jobs["1"] = false }},
		{"messages_handled", func(p *fleetPlay, _ *tally) { p.market.customers[0].acked-- }},
		{"nothing_left", func(p *fleetPlay, _ *tally) { p.market.customers[0].left++ }},
		{"one_holder", func(_ *fleetPlay, t *tally) { t.twice.Add(1) }},
		{"one_holder", func(_ *fleetPlay, t *tally) { t.lost.Add(1) }},
		{"entries_on_time", func(_ *fleetPlay, t *tally) { t.late.Add(1) }},
		{"entries_on_time", func(_ *fleetPlay, t *tally) { t.early.Add(1) }},
		{"entries_on_time", func(_ *fleetPlay, t *tally) { t.over.Store(0) }},
	} {
		p := soundFleet()
		test.spoil(p, &p.market.tally)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestFiguresOfTheFleetScene(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, f := range soundFleet().judge().Figures {
		got[f.Key] = f.Value
	}
	for key, want := range map[string]any{
		"tags_before":                []int64{1, 1, 1, 0},
		"tags_after":                 []int64{1, 2, 2, 7},
		"commands_per_second_before": []int64{100, 200, 300, 0},
		"commands_per_second_after":  []int64{100, 100, 200, 30},
		"adding_ms":                  int64(1999),
		"placing_ms":                 int64(9),
		"placing_while_adding_ms":    int64(9), // it had been asked for before, and came while it was added
		"questions":                  2.0,
	} {
		if diff := cmp.Diff(want, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestATallyJudgesReads(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := entry{value: "x", earliest: now, latest: now.Add(time.Second)}
	for _, test := range []struct {
		name            string
		found           bool
		value           string
		asked, answered time.Duration // since the earliest time
		want            [4]int64      // found, over, late, early
	}{
		{"there before", true, "x", -2, -1, [4]int64{1, 0, 0, 0}},
		{"another value", true, "y", -2, -1, [4]int64{0, 0, 0, 1}},
		{"missing before", false, "", -2, -1, [4]int64{0, 0, 0, 1}},
		{"there meanwhile", true, "x", 1, 2, [4]int64{1, 0, 0, 0}},
		{"missing meanwhile", false, "", -1, 1, [4]int64{0, 0, 0, 0}},
		{"there after", true, "x", time.Second + 1, time.Second + 2, [4]int64{0, 0, 1, 0}},
		{"missing after", false, "", time.Second + 1, time.Second + 2, [4]int64{0, 1, 0, 0}},
	} {
		var c tally
		c.judge(e, test.found, test.value, now.Add(test.asked), now.Add(test.answered))
		if got := [4]int64{c.found.Load(), c.over.Load(), c.late.Load(), c.early.Load()}; got != test.want {
			t.Errorf("%s: found, over, late, early = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestACustomerServedTwiceIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		turn func(c *customer)
		want int64
	}{
		{"one after the other", func(c *customer) { c.enter(1); c.exit(); c.enter(2) }, 0},
		{"at the same time", func(c *customer) { c.enter(1); c.enter(2) }, 1},
		{"with an old fence", func(c *customer) { c.enter(2); c.exit(); c.enter(2) }, 1},
	} {
		c := &customer{market: &market{}}
		test.turn(c)
		if got := c.market.tally.twice.Load(); got != test.want {
			t.Errorf("%s: %d leases had two holders, want %d", test.name, got, test.want)
		}
	}
}

// What lies on the wrong partition is found, by its keys and by its record.
func TestInventoryFindsASecondHome(t *testing.T) {
	t.Parallel()
	servers, err := devfleet.Start(t.Context(), devfleet.Config{
		Binary: redistest.Binary(t), Nodes: 1, Partitions: 2, Replicas: devfleet.NoReplicas,
	})
	must(t, err)
	defer func() { must(t, servers.Stop()) }()
	m, err := newMarket(t.Context(), servers.URL())
	must(t, err)
	defer m.leave()
	must(t, m.welcome(t.Context()))
	f := m.branches[0].fleet
	found, err := locate(t.Context(), f, m.tags())
	must(t, err)

	wantSeveral := func(want ...string) {
		t.Helper()
		all, err := takeInventory(t.Context(), f)
		must(t, err)
		for tag, l := range found {
			if !slices.Contains(all.keys[tag], l.Partition) || !slices.Contains(all.homes[tag], l.Partition) {
				t.Errorf("keys of %s are on %v, and records on %v, want both on %d", tag, all.keys[tag], all.homes[tag], l.Partition)
			}
		}
		if diff := cmp.Diff(want, all.severalHomes()); diff != "" {
			t.Errorf("tags with several homes (-want +got):\n%s", diff)
		}
	}
	wantSeveral()
	plant := func(id int, key, value string) {
		t.Helper()
		master := f.Partitions()[id]
		must(t, master.Do(t.Context(), master.B().Set().Key(key).Value(value).Build()).Error())
	}
	plant(1-found["customer:1"].Partition, "{customer:1}:stray", "x")
	wantSeveral("customer:1")
	other := 1 - found["customer:1/0"].Partition
	plant(other, recordPrefix+"customer:1/0"+recordEnd, fmt.Sprint(other))
	wantSeveral("customer:1", "customer:1/0")
}

// A demo that is cancelled leaves no process, under load, while the partition is
// added, and while masters are dead and frozen.
func TestCancelEndsScenesWithFleets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		scene    scene
		duration time.Duration
		shown    string // on the screen when the scene is under way
		least    int    // so many processes are started
	}{
		{"fleet under load", fleetScene(), time.Hour, "3 partitions", 1 + 2*fleetPartitions},
		{"fleet while adding", fleetScene(), time.Millisecond, "adding partition 3", 1 + 2*fleetPartitions},
		{"failover under load", failoverScene(), time.Hour, "writing", 1 + 2*failoverNodes},
		{"failover without masters", failoverScene(), time.Millisecond, "masters are lost", 1 + 2*failoverNodes},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			cfg := testConfig(server.URL(), test.scene)
			cfg.Duration = test.duration
			pids := filepath.Join(t.TempDir(), "pids")
			cfg.embedded = recorded(t, pids)
			screen := &notes{}
			cfg.Progress, cfg.Live = screen, true
			wantEnd(t, cfg, func() bool { return screen.has(test.shown) })

			text, err := os.ReadFile(pids)
			must(t, err)
			started := strings.Fields(string(text))
			if got, least := len(started), test.least; got < least {
				t.Errorf("%d processes were started, want %d at least", got, least)
			}
			for _, pid := range started {
				if running(pid) {
					t.Errorf("process %s still runs", pid)
				}
			}
		})
	}
}

// recorded is a machine whose server writes down its process id when it starts.
func recorded(t *testing.T, pids string) connect.EmbeddedConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redis-server")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >>%q\nexec %q \"$@\"\n", pids, redistest.Binary(t))
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return connect.EmbeddedConfig{Find: func() (string, error) { return path, nil }}
}

func TestInParallel(t *testing.T) {
	t.Parallel()
	items := make([]int, 10*atOnce)
	for i := range items {
		items[i] = i
	}
	done := make([]bool, len(items))
	must(t, inParallel(t.Context(), items, func(_ context.Context, i int) error { done[i] = true; return nil }))
	if slices.Contains(done, false) {
		t.Errorf("done = %v, want all", done)
	}
	want := fmt.Errorf("no more")
	if err := inParallel(t.Context(), items, func(_ context.Context, i int) error {
		if i == 5 {
			return want
		}
		return nil
	}); err != want {
		t.Errorf("inParallel = %v, want %v", err, want)
	}
}
