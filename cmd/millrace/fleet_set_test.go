package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/overview"
)

// TestFleetSet lists settings, and changes one after it asked, with one change of the map.
func TestFleetSet(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(append(specs(member(t)), "--max-tags", "100")...)
	epoch := answer[overview.Fleet](s, "fleet", "show").Epoch
	got := s.run("fleet", "set")
	if got.code != 0 || !strings.Contains(got.stdout, "max-tags        100    0") || !strings.Contains(got.stdout, "view-life       1s     1s") {
		t.Errorf("the list is %+v", got)
	}
	if got := s.feed("\n", "fleet", "set", "max-tags", "200"); got.code != 1 || !strings.HasPrefix(got.stderr, "Change max-tags from 100 to 200? [y/N] ") || !strings.Contains(got.stderr, "nothing was changed") {
		t.Errorf("without an answer: %+v", got)
	}
	s.refused(1, "declined", "fleet", "set", "max-tags", "200")
	if got := s.feed("y\n", "fleet", "set", "max-tags", "200"); got.code != 0 || got.stdout != "max-tags: 200, before 100\n" {
		t.Errorf("with an answer: %+v", got)
	}
	s.want("max-tags is 200 already\n", "fleet", "set", "max-tags", "200")
	got = s.run("fleet", "set", "max-tags", "default", "--yes", "--json")
	var doc setDoc
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || doc != (setDoc{"max-tags", "200", "0"}) {
		t.Errorf("the change is %+v, want it from 200 to 0", got)
	}
	if got := answer[overview.Fleet](s, "fleet", "show").Epoch; got != epoch+2 {
		t.Errorf("after two changes the epoch is %d, want %d", got, epoch+2)
	}
	s.want("restored-ick is none already\n", "fleet", "set", "restored-ick", "default")
	if got := s.run("fleet", "set", "restored-ick", "rebuild", "--yes"); got.code != 0 || got.stdout != "restored-ick: rebuild, before none\n" {
		t.Errorf("a name: %+v", got)
	}
	s.refused(2, "bad_usage", "fleet", "set", "max-speed", "200")
	s.refused(2, "bad_usage", "fleet", "set", "max-tags")
	s.refused(2, "bad_usage", "fleet", "set", "max-tags", "many", "--yes")
	for _, setting := range []string{"view-life", "reply-limit", "placement-life", "confirmed"} {
		if got := s.refused(2, "bad_usage", "fleet", "set", setting, "default", "--yes"); !strings.Contains(got.Error, "does not change") {
			t.Errorf("%s: %+v, want that it does not change", setting, got)
		}
	}
	s.refused(2, "bad_argument", "fleet", "set", "max-fill", "101", "--yes")
	s.refused(2, "bad_name", "fleet", "set", "restored-ick", "a\nb", "--yes")
}
