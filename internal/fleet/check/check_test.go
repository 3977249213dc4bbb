package check

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/test/redistest"
)

// assumption is one that does not hold any more.
type assumption struct {
	name   string
	breaks func()
	mends  func()
	want   string // check, severity and code of the finding
	where  string // its subject; empty for anything
}

// TestEachAssumption breaks one after the other, and wants the finding, which was not there
// before and is gone afterwards.
func TestEachAssumption(t *testing.T) {
	t.Parallel()
	tf := startFleet(t)
	c := tf.Client()
	for i := range 40 {
		must(t, c.Do(t.Context(), c.B().Set().Key("{user:"+strconv.Itoa(i)+"}:name").Value("x").Build()).Error())
	}
	stop := tf.agent()
	// A fleet for trials is not expected to have snapshots.
	trial := []string{"snapshots warning no_snapshots"}
	redistest.Eventually(t, "the agent has set up the members", func() bool { return slices.Equal(codes(tf.run(Config{})), trial) })
	all := tf.run(Config{All: true})
	if diff := cmp.Diff(trial, codes(all)); diff != "" {
		t.Errorf("a healthy fleet has findings (-want +got):\n%s%v", diff, all)
	}
	for _, check := range checks {
		if !slices.ContainsFunc(all, func(f Finding) bool {
			return f.Check == check.name && f.Text != "" && (f.Advice == "") == (f.Severity == finding.OK)
		}) {
			t.Errorf("%s has no finding, or no hint", check.name)
		}
	}
	if !slices.ContainsFunc(all, func(f Finding) bool { return f.Text == "one home for each of 40 tags" }) {
		t.Errorf("not all tags were looked up: %v", all)
	}
	stop()
	// From now on no agent repairs anything, and a leader seems to look after the fleet.
	lead := func(ttl time.Duration) {
		leads, err := tf.dir.Lead(t.Context(), "nobody", ttl)
		if must(t, err); !leads {
			t.Fatal("another agent leads")
		}
	}
	lead(time.Hour)

	var cases []assumption
	for _, group := range [][]assumption{tf.settings(), tf.replication(), tf.directory(), tf.inMap(), tf.homes()} {
		cases = append(cases, group...)
	}
	cases = append(cases, assumption{"no agent", func() { lead(0) }, func() { lead(time.Hour) }, "agents critical no_agent", ""})
	for _, a := range cases {
		t.Run(a.name, func(t *testing.T) {
			tf := &testFleet{tf.Fleet, t, tf.dev, tf.dir}
			a.breaks()
			var all []Finding
			redistest.Eventually(t, "there is "+a.want, func() bool {
				all = tf.run(Config{Sample: 1000})
				return slices.ContainsFunc(all, func(f Finding) bool {
					return strings.Join([]string{f.Check, f.Severity.String(), f.Code}, " ") == a.want && (a.where == "" || a.where == f.Where()) && f.Advice != ""
				})
			})
			a.mends()
			redistest.Eventually(t, a.want+" is gone", func() bool {
				all = tf.run(Config{Sample: 1000})
				return !slices.Contains(codes(all), a.want)
			})
		})
	}
	if left := slices.DeleteFunc(codes(tf.run(Config{Sample: 1000})), func(code string) bool { return slices.Contains(trial, code) }); len(left) > 0 {
		t.Errorf("%q was not mended, want nothing", left)
	}
}

// settings breaks settings of members.
func (tf *testFleet) settings() (list []assumption) {
	master, replica := tf.server(0, 0).Addr, tf.server(0, 1).Addr
	for _, s := range []struct{ addr, name, broken, right, want string }{
		{master, "maxmemory-policy", "allkeys-lru", "noeviction", "settings critical evicts"},
		{master, "maxmemory", "0", "64mb", "settings warning no_maxmemory"},
		{replica, "maxmemory", "32mb", "64mb", "settings warning unequal_maxmemory"},
		{master, "save", "900 1", "", "settings warning save"},
		{replica, "replica-read-only", "no", "yes", "settings critical writable_replica"},
		{master, "min-replicas-max-lag", "10", "2", "settings warning max_lag"},
		{master, "repl-backlog-size", "16kb", "1mb", "settings warning backlog"},
		{master, "client-output-buffer-limit", "slave 1mb 1mb 60", "slave 256mb 64mb 60", "settings warning replica_buffer"},
		{master, "timeout", "5", "0", "settings warning timeout"},
		{master, "min-replicas-to-write", "3", "1", "replication critical refuses_writes"},
		{master, "min-replicas-to-write", "0", "1", "replication warning lonely_writes"},
	} {
		list = append(list, assumption{
			name: s.name + " " + s.broken, want: s.want, where: s.addr + " (partition 0)",
			breaks: func() { tf.do(s.addr, "CONFIG", "SET", s.name, s.broken) },
			mends:  func() { tf.do(s.addr, "CONFIG", "SET", s.name, s.right) },
		})
	}
	return list
}

// replication points a replica elsewhere.
func (tf *testFleet) replication() []assumption {
	replica, master, other := tf.server(0, 1).Addr, tf.server(0, 0).Addr, tf.server(1, 0).Addr
	follow := func(addr string) {
		host, port, _ := strings.Cut(addr, ":")
		tf.do(replica, "REPLICAOF", host, port)
	}
	login := func() string {
		report, err := members.Examine(tf.t.Context(), tf.Partitions()[0])
		must(tf.t, err)
		user, _ := members.Login(report.Run, "")
		return user
	}
	mend := func() { follow(master) }
	where := replica + " (partition 0)"
	return []assumption{
		{"a wrong master", func() { follow(other) }, mend, "replication critical wrong_master", where},
		{"two masters", func() { tf.do(replica, "REPLICAOF", "NO", "ONE") }, mend, "replication critical second_master", where},
		{"no link", func() { tf.do(replica, "CONFIG", "SET", "masteruser", "stranger"); follow(other); mend() },
			func() { tf.do(replica, "CONFIG", "SET", "masteruser", login()); mend() }, "members warning behind", where},
		{"an earlier run", func() { tf.do(replica, "CONFIG", "SET", "masteruser", "mr-replica-0") },
			func() { tf.do(replica, "CONFIG", "SET", "masteruser", login()) }, "replication warning run", where},
		{"another address", func() { tf.do(replica, "CONFIG", "SET", "replica-announce-ip", "192.0.2.1"); follow(other); mend() },
			func() { tf.do(replica, "CONFIG", "SET", "replica-announce-ip", ""); follow(other); mend() }, "replication warning address", where},
	}
}

// directory makes the directory forgetful.
func (tf *testFleet) directory() (list []assumption) {
	addr := tf.dev.DirectoryAddr()
	for _, s := range []struct{ name, broken, right, want string }{
		{"appendonly", "no", "yes", "directory critical no_aof"},
		{"appendfsync", "no", "always", "directory critical no_fsync"},
		{"maxmemory-policy", "allkeys-lru", "noeviction", "directory critical evicts"},
	} {
		list = append(list, assumption{
			name: "directory " + s.name, want: s.want, where: addr,
			breaks: func() { tf.do(addr, "CONFIG", "SET", s.name, s.broken) },
			mends:  func() { tf.do(addr, "CONFIG", "SET", s.name, s.right) },
		})
	}
	return list
}

// inMap breaks assumptions that the map and the directory hold.
func (tf *testFleet) inMap() (list []assumption) {
	for _, s := range []struct {
		name, want, where string
		edit              func(p *directory.Partition)
	}{
		{"an unfenced restart", "boot-fence critical no_fence", tf.server(1, 1).Addr + " (partition 1)", func(p *directory.Partition) { p.Replicas[0].Boot = directory.BootOpen }},
		{"no restart", "boot-fence note not_restarted", tf.server(1, 0).Addr + " (partition 1)", func(p *directory.Partition) { p.Master.Boot = "" }},
		{"one node", "nodes warning same_node", "partition 1", func(p *directory.Partition) { p.Replicas[0].Node = p.Master.Node }},
		{"no nodes", "nodes note unnamed", "", func(p *directory.Partition) { p.Master.Node = "" }},
		{"one host", "nodes warning same_host", "partition 1", func(p *directory.Partition) { p.Master.Node, p.Replicas[0].Node = "", "" }},
		{"all masters on a node", "nodes warning uneven", "", func(p *directory.Partition) { p.Master.Node, p.Replicas[0].Node = p.Replicas[0].Node, p.Master.Node }},
		{"an addition cut off", "agents warning adding", "", func(p *directory.Partition) { p.Phase = directory.LookUp }},
		{"another history", "replication warning history", tf.server(1, 0).Addr + " (partition 1)", func(p *directory.Partition) { p.History = strings.Repeat("0", 40) }},
		{"no replica", "replication warning no_replica", "partition 1", func(p *directory.Partition) { p.Replicas = nil }},
	} {
		var old directory.Partition
		list = append(list, assumption{
			name: s.name, want: s.want, where: s.where,
			breaks: func() {
				tf.change(func(m *directory.Map) { old = m.Clone().Partitions[1]; s.edit(&m.Partitions[1]) })
			},
			mends: func() { tf.change(func(m *directory.Map) { m.Partitions[1] = old }) },
		})
	}
	confirmed := func(n int) func() {
		return func() { tf.change(func(m *directory.Map) { m.Settings.Confirmed = n }) }
	}
	snapped := func(s directory.Snapshot, age time.Duration) func() {
		return func() {
			for id := range 2 {
				s.Partition = id
				must(tf.t, tf.dir.Snapped(tf.t.Context(), time.Now().Add(-age), s))
			}
		}
	}
	saved := directory.Snapshot{Saved: directory.Saved{Addr: "a"}}
	archived := directory.Snapshot{Archived: directory.Archived{Addr: "a", File: "f"}}
	return append(
		list,
		assumption{"more confirmed than replicas", confirmed(2), confirmed(1), "replication critical confirmed", "partition 0"},
		assumption{"an old snapshot", snapped(saved, 25*time.Hour), snapped(saved, time.Minute), "snapshots warning old_snapshot", "partition 1"},
		assumption{"an old archive", snapped(archived, 25*time.Hour), snapped(archived, time.Minute), "snapshots warning old_archive", "partition 1"},
		assumption{"a failed snapshot", snapped(directory.Snapshot{Failed: directory.Failed{Addr: "a", Why: "no room"}}, 30*time.Second), snapped(saved, time.Second),
			"snapshots warning failed_snapshot", "partition 1"},
	)
}

// homes breaks the places of tags. Each one is mended by a record as it was.
func (tf *testFleet) homes() (list []assumption) {
	record := func(partition int, tag, text string) {
		if text == "" {
			tf.do(tf.server(partition, 0).Addr, "DEL", members.RecordKey(tag))
			return
		}
		tf.do(tf.server(partition, 0).Addr, "SET", members.RecordKey(tag), text)
	}
	for i, s := range []struct {
		name, want  string
		home, other string // records; of the home that the tag has, and of the other partition
		keys        bool   // whether the other partition has a key
		at          string // the partition that reports it: home or other
	}{
		{"two homes", "tags critical two_homes", "home", "other", false, "other"},
		{"an unknown home", "tags critical unreachable", "", "other", false, "other"},
		{"keys elsewhere", "tags critical stray_keys", "home", "home", true, "other"},
		{"keys without a record", "tags warning foreign_keys", "home", "", true, "other"},
		{"a circle", "tags critical lost", "other", "home", false, "home"},
		{"a partition that is not there", "tags critical lost", "9", "", false, "home"},
	} {
		tag := "user:" + strconv.Itoa(i)
		l, err := tf.Locate(tf.t.Context(), tag)
		must(tf.t, err)
		home, other := l.Partition, 1-l.Partition
		numbers := strings.NewReplacer("home", strconv.Itoa(home), "other", strconv.Itoa(other))
		list = append(list, assumption{
			name: s.name, want: s.want, where: "partition " + numbers.Replace(s.at),
			breaks: func() {
				record(home, tag, numbers.Replace(s.home))
				record(other, tag, numbers.Replace(s.other))
				if s.keys {
					tf.do(tf.server(other, 0).Addr, "SET", "{"+tag+"}:mail", "x")
				}
			},
			mends: func() {
				record(home, tag, strconv.Itoa(home))
				record(other, tag, "")
				tf.do(tf.server(other, 0).Addr, "DEL", "{"+tag+"}:mail")
			},
		})
	}
	return list
}

// TestASilentMemberDelaysNobody: the other members are checked, within the timeout.
func TestASilentMemberDelaysNobody(t *testing.T) {
	t.Parallel()
	tf := startFleet(t)
	c := tf.Client()
	must(t, c.Do(t.Context(), c.B().Set().Key("{a}").Value("x").Build()).Error())
	tf.do(tf.server(0, 0).Addr, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	for _, s := range []int{0, 1} {
		p := tf.server(1, s).Proc
		must(t, p.Pause())
		defer func() { must(t, p.Resume()) }()
	}
	began := time.Now()
	all := tf.run(Config{Sample: 1000})
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("took %v, want about 2 seconds", took)
	}
	for _, want := range []string{"settings critical evicts", "settings note silent", "tags note silent", "members critical down"} {
		if !slices.Contains(codes(all), want) {
			t.Errorf("no %s: %v", want, all)
		}
	}
}

// TestTagsOnTheMove checks all tags while they move to and fro, and are placed and forgotten.
func TestTagsOnTheMove(t *testing.T) {
	t.Parallel()
	tf := startFleetWith(t, devfleet.Config{Partitions: 2, Replicas: devfleet.NoReplicas, Settings: directory.Settings{PlacementTTL: time.Second}})
	c := tf.Client()
	var tags []string
	for i := range 20 {
		tag := "user:" + strconv.Itoa(i)
		must(t, c.Do(t.Context(), c.B().Set().Key("{"+tag+"}:name").Value("x").Build()).Error())
		tags = append(tags, tag)
	}
	mover, err := rebalance.New(tf.Fleet, rebalance.Config{Moves: tf.dir, Logger: quiet})
	must(t, err)
	var busy sync.WaitGroup
	done := make(chan struct{})
	busy.Go(func() {
		for _, to := range []int{1, 0} {
			if _, err := mover.Move(t.Context(), to, tags...); err != nil {
				t.Errorf("Move: %v", err)
			}
		}
		gone := c.Do(t.Context(), c.B().Del().Key("{user:0}:name").Build()).Error()
		_, err := tf.Forget(t.Context(), "user:0")
		if err = errors.Join(gone, err); err != nil {
			t.Errorf("Forget: %v", err)
		}
		close(done)
	})
	defer busy.Wait()
	moving := false
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		for _, f := range tf.run(Config{All: true}) {
			if f.Check == "tags" && f.Severity != finding.OK {
				t.Errorf("during moves: %v", f)
			}
			moving = moving || f.Check == "tags" && strings.HasSuffix(f.Text, " being moved or forgotten")
		}
	}
	if !moving {
		t.Error("no tag was seen on the move")
	}
}
