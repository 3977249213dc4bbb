package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFleetAgentMarksWhatIsRestored: a master without replicas is back with its saved data.
// One agent is killed, and another one marks the tags, but for one that is too long.
func TestFleetAgentMarksWhatIsRestored(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	server := member(t)
	s.init(specs(server)...)
	first := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms")
	first.line()
	s.shows("an agent knows the master's run", func(doc overview.Fleet) bool { return doc.Epoch > 1 })
	if got := s.run("fleet", "set", "restored-ick", "rebuild", "--yes"); got.code != 0 {
		t.Fatalf("set = %+v", got)
	}
	s.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")
	c, ctx := server.Client(t), t.Context()
	long := strings.Repeat("x", 5000)
	for _, err := range []error{
		c.Do(ctx, c.B().Set().Key("mr:fleet:{"+long+"}").Value("0").Build()).Error(),
		c.Do(ctx, c.B().Save().Build()).Error(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // it was killed
	server.Restart()
	second := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	second.line()
	redistest.Eventually(t, "the tag is marked", func() bool {
		marks, err := c.Do(ctx, c.B().Zrange().Key("rebuild/ick/{rebuild}/pset").Min("0").Max("-1").Build()).AsStrSlice()
		return err == nil && slices.Contains(marks, "K")
	})
	doc := s.shows("the log says so", func(doc overview.Fleet) bool {
		return slices.ContainsFunc(doc.Events, func(e directory.Event) bool {
			return strings.Contains(e.What, "its tags are marked in the Ick rebuild")
		})
	})
	if !slices.ContainsFunc(doc.Events, func(e directory.Event) bool {
		return strings.Contains(e.What, "Its data is that of its disk")
	}) {
		t.Errorf("events = %+v, want that the data may be old", doc.Events)
	}
	if !strings.Contains(second.stderr.String(), "too long to be marked") {
		t.Error("the agent does not say that a tag is too long")
	}
	second.end(syscall.SIGTERM)
}
