package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

// supervised is a server with a boot fence that a supervisor starts again however it ends.
type supervised struct {
	*redisproc.Proc

	t    *testing.T
	node string
	stop func() // ends the supervision
}

// spec is how commands name the server.
func (s *supervised) spec() string { return s.Addr() + "@" + s.node }

// supervise starts servers on a node.
func supervise(t *testing.T, node string, n int) []*supervised {
	t.Helper()
	servers := make([]*supervised, n)
	for i := range servers {
		proc, err := redisproc.Start(t.Context(), redisproc.Config{
			Binary: redistest.Binary(t), TCP: true,
			Args: []string{"--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no", "--repl-diskless-sync-delay", "0", "--min-replicas-max-lag", "2"},
		})
		if err != nil {
			t.Fatal(err)
		}
		servers[i] = &supervised{Proc: proc, t: t, node: node}
		servers[i].start()
		t.Cleanup(func() {
			servers[i].stop()
			if err := proc.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return servers
}

// start begins the supervision.
func (s *supervised) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-s.Done():
			case <-ctx.Done():
				return
			}
			if err := s.Restart(ctx); err != nil && ctx.Err() == nil {
				s.t.Errorf("the server at %s cannot be started again: %v", s.Addr(), err)
				return
			}
		}
	})
	s.stop = func() {
		cancel()
		watching.Wait()
	}
}

// drill is a fleet in use.
type drill struct {
	shell

	fleet *fleet.Fleet
	nodes map[string][]*supervised

	mu        sync.Mutex
	confirmed map[string][]string // what was written, by tag
}

// write adds numbers to the sets of its tags until ctx ends, and remembers those that a
// replica has confirmed.
func (d *drill) write(ctx context.Context, writer int) {
	c, pace := d.fleet.Client(), time.NewTicker(2*time.Millisecond) // leaves the CPUs to others
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-pace.C
		tag, number := fmt.Sprint("user-", writer, "-", i%25), strconv.Itoa(i)
		if c.Do(ctx, c.B().Sadd().Key("{"+tag+"}").Member(number).Build()).Error() == nil {
			d.mu.Lock()
			d.confirmed[tag] = append(d.confirmed[tag], number)
			d.mu.Unlock()
		}
	}
}

// underLoad does something while writers write.
func (d *drill) underLoad(do func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() { d.write(ctx, w) })
	}
	do()
	cancel()
	writers.Wait()
}

// wants fails if anything is missing that was confirmed.
func (d *drill) wants(after string) {
	d.t.Helper()
	c, all := d.fleet.Client(), 0
	for tag, numbers := range d.confirmed {
		has, err := c.Do(d.t.Context(), c.B().Smismember().Key("{"+tag+"}").Member(numbers...).Build()).AsIntSlice()
		if err != nil {
			d.t.Fatalf("after %s: %v", after, err)
		}
		for i, there := range has {
			if all++; there != 1 {
				d.t.Errorf("after %s the tag %s lacks %s, which was confirmed", after, tag, numbers[i])
			}
		}
	}
	if all == 0 {
		d.t.Errorf("before the end of %s nothing was written", after)
	}
}

// must runs a command that must succeed.
func (d *drill) must(args ...string) string {
	d.t.Helper()
	began := time.Now()
	got := d.run(args...)
	if got.code != 0 {
		d.t.Fatalf("millrace %s = %d\n%s\n%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	d.t.Logf("%v: millrace %s", time.Since(began).Round(time.Millisecond), strings.Join(args, " "))
	return got.stdout
}

// isGreen waits until fleet check has nothing to say.
func (d *drill) isGreen() {
	d.t.Helper()
	var got outcome
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Log(got.stdout, got.stderr)
		}
	})
	redistest.Eventually(d.t, "the check is green", func() bool {
		got = d.run("fleet", "check", "--all")
		return got.code == 0
	})
}

// restore puts the newest archived snapshot of a partition in the place of all its data.
func (d *drill) restore(archive string, partition int) {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(archive, fmt.Sprintf("*-%d.rdb", partition)))
	if err != nil || len(files) == 0 {
		d.t.Fatalf("the archive has %v (%v) of partition %d", files, err, partition)
	}
	snapshot, err := os.ReadFile(slices.Max(files))
	if err != nil {
		d.t.Fatal(err)
	}
	p := answer[overview.Fleet](d.shell, "fleet", "show").Partitions[partition]
	var members []*supervised
	for _, servers := range d.nodes {
		for _, s := range servers {
			if s.Addr() == p.Master.Addr || slices.ContainsFunc(p.Replicas, func(r fleet.MemberStatus) bool { return r.Addr == s.Addr() }) {
				members = append(members, s)
				s.stop()
				if err := s.Kill(); err != nil {
					d.t.Fatal(err)
				}
				if err := os.RemoveAll(filepath.Join(s.Dir(), "dump.rdb")); err != nil {
					d.t.Fatal(err)
				}
			}
		}
	}
	first := slices.IndexFunc(members, func(s *supervised) bool { return s.Addr() == p.Master.Addr })
	members[0], members[first] = members[first], members[0]
	if err := os.WriteFile(filepath.Join(members[0].Dir(), "dump.rdb"), snapshot, 0o600); err != nil {
		d.t.Fatal(err)
	}
	members[0].start() // which starts the server
	redistest.Eventually(d.t, "the partition goes on with that data", func() bool {
		return d.run("fleet", "restore", strconv.Itoa(partition), "--from", p.Master.Addr, "--yes").code == 0
	})
	for _, s := range members[1:] {
		s.start()
	}
}

// TestFleetDrill plays years of operation: all machines are replaced, the directory is
// lost, and a partition comes from the archive. Nothing that was confirmed is lost.
func TestFleetDrill(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	directory := redistest.Durable(t)
	d := &drill{shell: shell{t: t, url: fleetURL(directory)}, nodes: map[string][]*supervised{}, confirmed: map[string][]string{}}
	args := append([]string{"fleet", "init"}, quickly...)
	for i := range 4 {
		node := fmt.Sprint("old-", i)
		d.nodes[node] = supervise(t, node, 2)
	}
	for i := range 4 {
		master, replica := d.nodes[fmt.Sprint("old-", i)][0], d.nodes[fmt.Sprint("old-", (i+1)%4)][1]
		args = append(args, "--partition", master.spec()+","+replica.spec())
	}
	d.must(args...)

	archive := t.TempDir()
	ctx, end := context.WithCancel(t.Context())
	agent := command(t, "--redis", d.url, "fleet", "agent", "--every", "200ms", "--snapshots-every", "10s", "--archive", archive)
	log := new(redistest.Log)
	agent.Stderr, agent.Stdout = log, io.Discard
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = agent.Process.Signal(syscall.SIGTERM)
		if err := agent.Wait(); err != nil || t.Failed() {
			t.Logf("the agent ends with %v:\n%s", err, log)
		}
	})

	var err error
	if d.fleet, err = fleet.Dial(ctx, d.url, fleet.Config{WaitReplicas: 1, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.fleet.Close)

	d.must("fleet", "set", "restored-ick", "lost", "--yes")
	d.underLoad(func() {
		for i := range 4 {
			old, node := fmt.Sprint("old-", i), fmt.Sprint("new-", i)
			d.nodes[node] = supervise(t, node, 2)
			d.must("fleet", "node", "replace", old, d.nodes[node][0].spec(), d.nodes[node][1].spec(), "--yes")
			for _, s := range d.nodes[old] { // the machine is switched off
				s.stop()
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			delete(d.nodes, old)
		}
	})
	d.wants("replacing all nodes")

	d.underLoad(func() {
		c := directory.Client(t)
		if err := c.Do(t.Context(), c.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		d.must("fleet", "recover", "--archive", archive, "--yes")
	})
	d.wants("losing the directory")

	d.must("fleet", "snapshot", "--now", "2", "--archive", archive)
	d.restore(archive, 2)
	d.isGreen()
	d.wants("restoring a partition")
	d.marked("lost", 2)
}

// marked waits until a consumer of the Ick got all tags of a partition, to bring them in
// line again.
func (d *drill) marked(name string, partition int) {
	d.t.Helper()
	var tags []string
	for tag := range d.confirmed {
		if answer[fleet.Location](d.shell, "fleet", "locate", tag).Partition == partition {
			tags = append(tags, tag)
		}
	}
	if len(tags) == 0 {
		d.t.Fatalf("no tag is on partition %d", partition)
	}
	d.marks(name, tags)
}

// marks waits until a consumer of the Ick got these tags.
func (d *drill) marks(name string, tags []string) {
	d.t.Helper()
	missing := map[string]bool{}
	for _, tag := range tags {
		missing[tag] = true
	}
	marks, err := ick.New(d.fleet.Client(), name, ick.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	_ = marks.Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
		for _, mark := range batch {
			delete(missing, mark.Member)
		}
		if len(missing) == 0 {
			cancel()
		}
		return nil
	})
	if len(missing) > 0 {
		d.t.Errorf("%v are not marked", slices.Collect(maps.Keys(missing)))
	}
}
