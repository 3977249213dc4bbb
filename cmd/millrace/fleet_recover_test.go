package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFleetRecover loses the directory with its server, finds the fleet by the copies on its
// members, and makes a new directory of them.
func TestFleetRecover(t *testing.T) {
	t.Parallel()
	directory := redistest.Durable(t)
	s := shell{t: t, url: fleetURL(directory)}
	servers := []*redistest.Server{member(t), member(t), member(t)}
	s.init("--partition", servers[0].Addr()+"@a,"+servers[1].Addr()+"@b", "--partition", servers[2].Addr()+"@b")
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms")
	agent.line()
	s.isFull()
	s.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")
	for _, server := range servers {
		c := server.Client(t)
		redistest.Eventually(t, "each member has a copy of the map", func() bool {
			n, err := c.Do(t.Context(), c.B().Exists().Key("mr:fleet:map").Build()).AsInt64()
			return err == nil && n == 1
		})
	}
	before := answer[overview.Fleet](s, "fleet", "show")
	agent.end(syscall.SIGTERM)
	directory.Kill()

	s.url = fleetURL(redistest.Durable(t))
	recover := []string{"fleet", "recover", "--member", servers[1].Addr()}
	found := answer[recoveredDoc](s, append(recover, "--dry-run")...)
	if found.Stored || found.Fleet != nil || len(found.Found.Members) != 3 || len(found.Found.Unknown) != 1 || found.Found.Epoch != found.Found.Copies[0].Epoch {
		t.Errorf("--dry-run = %+v, want three members, and nothing stored", found)
	}
	if m := found.Found.Members[1]; m.Addr != servers[1].Addr() || m.Node != "b" || m.Partition != 0 || !m.Named || m.State != "replica" || m.Copy != found.Found.Epoch {
		t.Errorf("the second member is %+v, want the replica of partition 0 with a copy", m)
	}
	s.refused(1, "declined", recover...)
	got := s.run(recover...) // standard input is at its end
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "PARTITION  MEMBER") || !strings.Contains(got.stderr, "What is not known:") ||
		!strings.Contains(got.stderr, "The old directory must be gone for good") || !strings.Contains(got.stderr, "--yes") {
		t.Errorf("without a terminal: %+v", got)
	}
	s.refused(1, "not_found", "fleet", "show")
	if got := s.feed("y\n", recover...); got.code != 0 || !strings.Contains(got.stdout, "healthy") {
		t.Errorf("with an answer: %+v", got)
	}
	s.want("0 new, 0 lowered\n", "ick", "add", "K", "1", "a")
	again := s.run(append(recover, "--json")...) // nothing is asked: the fleet is there
	var doc recoveredDoc
	if err := json.Unmarshal([]byte(again.stdout), &doc); err != nil || doc.Stored || doc.Fleet == nil || doc.Fleet.State != fleet.Healthy || doc.Fleet.Epoch <= before.Epoch {
		t.Errorf("once more = %+v, want the fleet", again)
	}

	servers[2].Kill()
	s.url = fleetURL(redistest.Durable(t))
	got = s.run(append(recover, "--yes", "--json")...)
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 1 || !doc.Stored || doc.Fleet.Partitions[0].State != fleet.Healthy || !strings.Contains(got.stderr, `"code":"no_master"`) {
		t.Errorf("with a silent partition: %+v, want that the other one serves", got)
	}

	s.refused(2, "bad_usage", "fleet", "recover")
	s.refused(2, "bad_usage", "fleet", "recover", "--member", "a@b")
	s.refused(2, "bad_usage", "fleet", "recover", "--archive", "/no/such/folder")
	s.refused(1, "no_copy", "fleet", "recover", "--member", servers[2].Addr())
}
