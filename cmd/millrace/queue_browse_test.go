package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestQueueBrowse finds messages by header and text, goes on, and groups the dead.
func TestQueueBrowse(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "browse", name)
	s.run("queue", "write", name, "--tenant", "a", "--body", "one", "--header", "k=v;w=1")
	s.run("queue", "write", name, "--tenant", "b", "--body", "two")
	type page struct {
		Messages []struct{ ID string }
		Groups   []struct {
			Reason string
			Count  int
		}
		Looked, Total int
		Next          string
	}
	if got := answer[page](s, "queue", "browse", name, "--header", "k=v;w=1"); len(got.Messages) != 1 || got.Looked != 2 {
		t.Errorf("by header: %+v", got)
	}
	first := answer[page](s, "queue", "browse", name, "--text", "two", "--look", "1")
	if got := answer[page](s, "queue", "browse", name, "--text", "two", "--from", first.Next); len(first.Messages) != 0 || len(got.Messages) != 1 {
		t.Errorf("by text: %+v, then %+v", first, got)
	}
	if got := s.run("queue", "browse", name, "--look", "1").stdout; !strings.Contains(got, "looked at 1 of 2, go on with --from "+first.Next) {
		t.Errorf("printed\n%s", got)
	}
	s.run("queue", "nack", name, s.take(name).Messages[0].Receipt, "--dead", "--reason", "no parser")
	if got := answer[page](s, "queue", "dead", "groups", name); len(got.Groups) != 1 || got.Groups[0].Reason != "no parser" || got.Groups[0].Count != 1 {
		t.Errorf("groups: %+v", got)
	}
	s.want("no dead message matches\n", "queue", "dead", "ls", name, "--reason", "none")
	s.refused(2, "bad_argument", "queue", "browse", name, "--from", "x")
}
