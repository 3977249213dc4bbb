package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/scatter"
)

// TestCounter counts over two servers, of which one goes away.
func TestCounter(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: one.URL() + "," + two.URL()}
	s.want("0 on 2 servers\n", "counter", "get", "n")
	first := answer[ops.Added](s, "counter", "add", "n", "2", "--shard-key", "a").Server
	for range 3 {
		if got := answer[ops.Added](s, "counter", "add", "n", "2", "--shard-key", "a"); got.Server != first || got.Added != 2 {
			t.Errorf("added %+v, want 2 on %s, as before", got, first)
		}
	}
	for range 20 {
		answer[ops.Added](s, "counter", "add", "n", "-1000")
	}
	if got, want := answer[ops.Counted](s, "counter", "get", "n"), (ops.Counted{Value: 8 - 20_000, Answers: ops.Answers{Servers: 2, Answered: 2}}); !cmp.Equal(got, want) {
		t.Errorf("counter get = %+v, want %+v", got, want)
	}
	s.want("-19,992 on 2 servers\n", "counter", "get", "n")

	session := answer[ops.CountsAdded](s, "counter", "add", "x", "2", "y", "-3", "--shard-key", "a")
	if want := (ops.CountsAdded{Counters: 2, Server: first}); session != want {
		t.Errorf("counter add of two = %+v, want %+v", session, want)
	}
	s.want("added to 2 counters on "+first+"\n", "counter", "add", "x", "1", "y", "1", "--shard-key", "a")
	both := ops.Sums{Counters: []ops.CounterValue{{Name: "y", Value: -2}, {Name: "x", Value: 3}}, Answers: ops.Answers{Servers: 2, Answered: 2}}
	if diff := cmp.Diff(both, answer[ops.Sums](s, "counter", "get", "y", "x")); diff != "" {
		t.Errorf("counter get of two (-want +got):\n%s", diff)
	}
	s.want("y  -2\nx  3\n", "counter", "get", "y", "x")

	two.Kill()
	if got := s.run("counter", "get", "n", "x", "--json"); got.code != 1 || !strings.Contains(got.stdout, `"missing":["`+two.URL()) || !strings.Contains(got.stderr, `"partial"`) {
		t.Errorf("counter get of two without a server = %+v, want what there is, and what is missing", got)
	}
	got := s.run("counter", "get", "n", "--json")
	var doc ops.Counted
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

// TestCounterServers looks at servers that have something, nothing, and are away.
func TestCounterServers(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: one.URL() + "," + two.URL()}
	sc, err := scatter.New(scatter.Clients(one.Client(t)), scatter.Config{Group: "ads"})
	if err != nil {
		t.Fatal(err)
	}
	defer sc.Close()
	session := sc.Session("x")
	session.In(scatter.Bucket{}).Add("n", 1)
	if err := session.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc := answer[ops.CounterServers](s, "counter", "servers", "--group", "ads")
	if len(doc.Servers) != 2 || doc.Servers[0].Until == nil || time.Until(*doc.Servers[0].Until) < 4*time.Hour {
		t.Fatalf("counter servers = %+v, want a bucket on the first one", doc)
	}
	doc.Servers[0].Until = nil
	want := ops.CounterServers{Servers: []ops.CounterServer{
		{Server: one.URL(), Flushes: 1},
		{Server: two.URL(), Empty: true},
	}}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("counter servers (-want +got):\n%s", diff)
	}
	if got := s.run("counter", "servers", "--group", "ads").stdout; !strings.Contains(got, "values until ") {
		t.Errorf("counter servers = %q, want until when", got)
	}
	shell{t: t, url: two.URL()}.want("added 1 on "+two.URL()+"\n", "counter", "add", "n", "1")
	one.Kill()
	got := s.run("counter", "servers")
	if !strings.Contains(got.stdout, "values without an end") || strings.Contains(got.stdout, one.URL()) ||
		got.code != 1 || !strings.Contains(got.stderr, one.URL()) {
		t.Errorf("counter servers without a server = %+v, want the other one", got)
	}
}

// TestCounterEviction: a server that may evict counters is refused, unless that is
// accepted.
func TestCounterEviction(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{MaxMemory: "50mb", Policy: "volatile-lru"}).URL()}
	if f := s.refused(1, "evictable", "counter", "add", "n", "1"); !strings.Contains(f.Hint, "--allow-evictable") {
		t.Errorf("hint = %q, want the flag", f.Hint)
	}
	s.run("counter", "add", "n", "1", "--allow-evictable")
	s.want("1 on 1 server\n", "counter", "get", "n")
}

// TestCounterOnAFleet counts over its partitions.
func TestCounterOnAFleet(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	for range 10 {
		answer[ops.Added](s, "counter", "add", "n", "1")
	}
	s.want("10 on 2 servers\n", "counter", "get", "n")
}

func TestCounterRefuses(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: "redis://127.0.0.1:1"}
	s.refused(2, "bad_name", "counter", "get", "")
	s.refused(2, "bad_usage", "counter", "add", "n", "one")
	s.refused(2, "bad_usage", "counter", "add", "n", "1", "m")
	s.refused(2, "bad_usage", "counter", "add", "n", "1", "m", "one")
	s.refused(2, "bad_usage", "counter", "add", "n", "1", "n", "2")
	s.refused(2, "bad_name", "counter", "add", "n", "1", "mr:x", "2")
	shell{t: t, url: "redis://127.0.0.1:1,fleet://h:1"}.refused(2, "bad_url", "counter", "get", "n")
}
