package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// tell writes a line to the command, and returns the document that it prints.
func tell[T any](d *process, line string) (doc T) {
	d.t.Helper()
	if _, err := fmt.Fprintln(d.stdin, line); err != nil {
		d.t.Fatal(err)
	}
	if printed := d.line(); json.Unmarshal([]byte(printed), &doc) != nil {
		d.t.Fatalf("after %q it prints %q, want a document", line, printed)
	}
	return doc
}

// doneDoc is the result of an action on a server.
type doneDoc struct {
	Done string
	devfleet.Status
}

// TestFleetDevAccidents has masters killed, frozen, resumed and restarted, while its
// agent puts things right.
func TestFleetDevAccidents(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	d := startDev(t, "--nodes", "3", "--partitions", "2", "--replicas", "2", "--restart-after", "1s", "--json")
	s := shell{t: t, url: d.ready()}
	before := s.isFull()
	listed := tell[struct{ Servers []devfleet.Status }](d, "servers").Servers
	if len(listed) != 7 || listed[0].Role != "directory" || listed[0].Partition != -1 {
		t.Errorf("servers = %+v, want the directory and six more", listed)
	}
	for _, server := range listed {
		if server.State != "runs" || gone(server.PID) {
			t.Errorf("servers has %+v, want it to run", server)
		}
	}

	// A kill, whose pause a writer measures, and a server that comes back by itself.
	killed := tell[doneDoc](d, "kill 0")
	old := before.Partitions[0].Master
	want := doneDoc{"kill", devfleet.Status{Role: devfleet.Master, Node: old.Node, Addr: old.Addr, PID: old.PID, State: "dead"}}
	if killed != want || !gone(old.PID) {
		t.Errorf("kill 0 = %+v, want %+v", killed, want)
	}
	t.Logf("the first write was accepted %s after the kill", s.pauseOf(0))
	s.shows("the killed one is a replica in step", func(doc overview.Fleet) bool {
		return doc.State == fleet.Healthy && doc.Partitions[0].Master.Addr != old.Addr
	})
	if said := d.stderr.String(); !strings.Contains(said, "was restarted") {
		t.Errorf("it does not say that a server was restarted:\n%s", said)
	}

	// A freeze, a partition whose number then means another server, and a resume.
	frozen := tell[doneDoc](d, "freeze 1")
	s.shows("another master is there", func(doc overview.Fleet) bool {
		return doc.Partitions[1].State == fleet.Partial && doc.Partitions[1].Master.Addr != frozen.Addr
	})
	for _, server := range tell[struct{ Servers []devfleet.Status }](d, "servers").Servers {
		if server.Addr == frozen.Addr && (server.State != "frozen" || server.Role != "replica") {
			t.Errorf("the frozen one is listed as %+v", server)
		}
	}
	d.refuses("resume 1", `"code":"not_frozen","hint":"This one is: resume `+frozen.Addr+`"`)
	if got := tell[doneDoc](d, "resume "+frozen.Addr); got.State != "runs" || got.Role != "replica" || got.Done != "resume" {
		t.Errorf("resume = %+v, want it to run", got)
	}
	now := s.isFull()

	// A restart of a replica, which disturbs no client.
	replica := now.Partitions[1].Replicas[0]
	if got := tell[doneDoc](d, "restart "+replica.Addr); got.State != "runs" || got.PID == replica.PID || got.Addr != replica.Addr {
		t.Errorf("restart = %+v, want another process at %s", got, replica.Addr)
	}
	s.isFull()

	for line, part := range map[string]string{
		"explode 0":          `"code":"bad_usage"`,
		"kill":               `"code":"bad_usage"`,
		"kill 0 1":           `"code":"bad_usage"`,
		"help me":            `"code":"bad_usage"`,
		"kill 2":             `"error":"there is no partition 2: the fleet has 2, from 0 on","code":"not_found"`,
		"freeze 127.0.0.1:1": `"error":"this command has no server at 127.0.0.1:1","code":"not_found"`,
		"resume 0":           `"code":"not_frozen","hint":"No server is."`,
	} {
		d.refuses(line, part)
	}
	if _, err := fmt.Fprintln(d.stdin); err != nil { // which is nothing
		t.Fatal(err)
	}
	if got := tell[struct{ Commands []struct{ Command string } }](d, "help").Commands; len(got) != 6 {
		t.Errorf("help = %+v, want six commands", got)
	}
	d.stdin.Close() // which is no reason to end
	if doc := answer[overview.Fleet](s, "fleet", "show"); doc.State != fleet.Healthy {
		t.Errorf("show = %+v, want it healthy", doc)
	}
	d.end(syscall.SIGTERM)
}

// refuses writes a line to the command, and waits until it says why it is refused.
func (d *process) refuses(line, why string) {
	d.t.Helper()
	before := len(d.stderr.String())
	if _, err := fmt.Fprintln(d.stdin, line); err != nil {
		d.t.Fatal(err)
	}
	redistest.Eventually(d.t, fmt.Sprintf("after %q it says %s", line, why), func() bool {
		return strings.Contains(d.stderr.String()[before:], why)
	})
}

// pauseOf writes to a partition until a write is a success, and returns how long
// that took.
func (s shell) pauseOf(partition int) time.Duration {
	s.t.Helper()
	began := time.Now()
	a := &app{env: s.env, redis: s.url, stderr: new(redistest.Log)}
	f, err := a.openFleet(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	c := f.Partitions()[partition]
	redistest.Eventually(s.t, "a write is accepted", func() bool {
		return c.Do(s.t.Context(), c.B().Set().Key("pause").Value("over").Build()).Error() == nil
	})
	return time.Since(began)
}

// TestFleetDevConsoleForPeople types lines as people would.
func TestFleetDevConsoleForPeople(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--nodes", "1", "--partitions", "1", "--replicas", "0", "--restart-after", "0")
	until := func(part string) string {
		t.Helper()
		for {
			if line := d.line(); strings.Contains(line, part) {
				return line
			}
		}
	}
	until("servers, help\n")
	fmt.Fprintln(d.stdin, "freeze 0")
	if got := until("frozen: 127.0.0.1:"); !strings.HasSuffix(got, ", the master of partition 0 on node-0\n") {
		t.Errorf("freeze prints %q", got)
	}
	fmt.Fprintln(d.stdin, "servers")
	until("STATE")
	until("directory ")
	if got := until("master "); !strings.HasSuffix(got, "  frozen\n") {
		t.Errorf("servers lists %q, want it frozen", got)
	}
	fmt.Fprintln(d.stdin, "kill 0")
	until("killed: 127.0.0.1:")
	d.refuses("freeze 0", "it does not run\nTry: Start it again with restart.\n")
	fmt.Fprintln(d.stdin, "help")
	until("resume HOST:PORT|PARTITION   lets it go on")
	until("its master of the moment.")
	d.end(syscall.SIGTERM)
	if said := d.stderr.String(); strings.Contains(said, "was restarted") {
		t.Errorf("with --restart-after 0 it says:\n%s", said)
	}
}
