package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestPinned(t *testing.T) {
	t.Parallel()
	s, ns := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "pinned", "get", ns, "k")
	s.want("set\n", "pinned", "set", ns, "k", "on", "--ttl", "30m")
	if got := s.run("pinned", "get", ns, "k").stdout; !strings.HasPrefix(got, "on\n\ngone in ") {
		t.Errorf("get says %q", got)
	}
	if got := s.run("pinned", "ttl", ns, "k", "--set", "3h").stdout; !strings.HasPrefix(got, "gone in 2h59m") && !strings.HasPrefix(got, "gone in 3h") {
		t.Errorf("ttl says %q, want three hours", got)
	}
	s.refused(1, "not_found", "pinned", "ttl", ns, "nothing", "--set", "3h")
	s.want("deleted 1 value\n", "pinned", "rm", ns, "k", "nothing")
	s.want(`{"deleted":0}`+"\n", "pinned", "rm", ns, "k", "--json")

	s.refused(2, "bad_usage", "pinned", "set", ns, "k", "v")
	s.refused(2, "bad_argument", "pinned", "set", ns, "k", "v", "--ttl", "0s")
	s.refused(2, "bad_argument", "pinned", "ttl", ns, "k", "--set", "0s")
	s.refused(2, "bad_name", "pinned", "get", ns, "{")
	s.refused(2, "bad_name", "pinned", "rm", ns, "k", "{")
	s.refused(2, "bad_name", "pinned", "get", "mr:x", "k")
}

func TestTracker(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("added 2 identifiers\n", "tracker", "add", name, "a", "b")
	if got := s.run("tracker", "queued", name, "a", "c").stdout; !strings.Contains(got, "a   queued   ") || !strings.Contains(got, "c   unknown  -") {
		t.Errorf("queued says %q", got)
	}
	if got := s.run("tracker", "stats", name).stdout; !strings.HasPrefix(got, "2 identifiers tracked") || !strings.Contains(got, "unknown") {
		t.Errorf("stats says %q", got)
	}
	if got := s.run("tracker", "ls").stdout; !strings.Contains(got, name+"\n") {
		t.Errorf("ls says %q, want %s", got, name)
	}
	s.want("2 keys deleted\n", "tracker", "rm", name)
	s.refused(2, "bad_usage", "tracker", "queued", name)
	s.refused(2, "bad_argument", "tracker", "queued", name, strings.Repeat("x", 513))
	s.refused(2, "bad_name", "tracker", "stats", "")
}
