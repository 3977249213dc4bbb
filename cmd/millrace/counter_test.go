package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/server/document"
)

// TestCounter counts over two servers, of which one goes away.
func TestCounter(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	s := shell{t, one.URL() + "," + two.URL()}
	s.want("0 on 2 servers\n", "counter", "get", "n")
	first := answer[document.Counter](s, "counter", "add", "n", "2", "--shard-key", "a").Server
	for range 3 {
		if got := answer[document.Counter](s, "counter", "add", "n", "2", "--shard-key", "a"); got.Server != first || got.Added != 2 {
			t.Errorf("added %+v, want 2 on %s, as before", got, first)
		}
	}
	for range 20 {
		answer[document.Counter](s, "counter", "add", "n", "-1000")
	}
	if got, want := answer[document.Counted](s, "counter", "get", "n"), (document.Counted{Value: 8 - 20_000, Servers: 2, Answered: 2}); got != want {
		t.Errorf("counter get = %+v, want %+v", got, want)
	}
	s.want("-19,992 on 2 servers\n", "counter", "get", "n")

	two.Kill()
	got := s.run("counter", "get", "n", "--json")
	var doc document.Counted
	var f failure
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 1 || doc.Servers != 2 || doc.Answered != 1 {
		t.Errorf("counter get without a server = %+v (%v), want one of two", got, err)
	}
	if err := json.Unmarshal([]byte(got.stderr), &f); err != nil || f.Code != "partial" || !strings.Contains(f.Error, two.URL()) || f.Hint == "" {
		t.Errorf("it says %+v (%v), want that it is partial, and %s", f, err, two.URL())
	}
	one.Kill()
	if f := s.refused(1, "partial", "counter", "get", "n"); !strings.Contains(f.Error, "2 of 2 servers") {
		t.Errorf("counter get without servers says %+v", f)
	}
}

// TestCounterOnAFleet counts over its partitions.
func TestCounterOnAFleet(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	for range 10 {
		answer[document.Counter](s, "counter", "add", "n", "1")
	}
	s.want("10 on 2 servers\n", "counter", "get", "n")
}

func TestCounterRefuses(t *testing.T) {
	t.Parallel()
	s := shell{t, "redis://127.0.0.1:1"}
	s.refused(2, "bad_name", "counter", "get", "")
	s.refused(2, "bad_usage", "counter", "add", "n", "one")
	shell{t, "redis://127.0.0.1:1,fleet://h:1"}.refused(2, "bad_url", "counter", "get", "n")
}
