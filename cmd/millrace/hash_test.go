package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// gotDoc is the document of hash get.
type gotDoc struct {
	Value string
	TTL   int64 `json:"ttl_ms"`
}

func TestHashRound(t *testing.T) {
	t.Parallel()
	s, ns := sharedShell(t), redistest.Name(t)
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "user:17", "token", "3f9a", "--ttl", "1h")
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "user:17", "token", "77c0", "--keep-ttl")
	got := answer[gotDoc](s, "hash", "get", ns, "user:17", "token")
	if left := time.Duration(got.TTL) * time.Millisecond; got.Value != "77c0" || left > time.Hour || left < time.Hour-time.Minute {
		t.Errorf("get = %+v, want the new value and the old time, an hour", got)
	}
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "user:17", `{"base64":"/wA="}`, `{"base64":"AP8="}`)
	s.want(`{"value":{"base64":"AP8="},"ttl_ms":-1}`+"\n", "--json", "hash", "get", ns, "user:17", `{"base64":"/wA="}`)
	s.want(`{"fields":[{"field":"token","ttl_ms":-1}]}`+"\n", "--json", "hash", "ttl", ns, "user:17", "token", "--persist")
	s.want(`{"deleted":2}`+"\n", "--json", "hash", "rm", ns, "user:17")
	s.want(`{"fields":[]}`+"\n", "--json", "hash", "ls", ns, "user:17")
	s.refused(1, "not_found", "hash", "get", ns, "user:17", "token")
}

// TestHashDrop: a namespace goes with all its hashes, and one that is not there is none.
func TestHashDrop(t *testing.T) {
	t.Parallel()
	s, ns := sharedShell(t), redistest.Name(t)
	for _, hash := range []string{"a", "b", "c"} {
		s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, hash, "f", "v", "--ttl", "1h")
	}
	for range 2 {
		s.want(`{"dropped":true}`+"\n", "--json", "hash", "rm", ns, "--all", "--yes")
		s.refused(1, "not_found", "hash", "get", ns, "a", "f")
	}
	s.want("deleted\n", "hash", "rm", ns, "--all", "--yes")
	s.refused(1, "declined", "hash", "rm", ns, "--all")
	s.refused(2, "bad_usage", "hash", "rm", ns)
	s.refused(2, "bad_usage", "hash", "rm", ns, "a", "--all")
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "a", "f", "v")
	s.refused(2, "bad_name", "hash", "rm", "a{b}", "--all", "--yes")
}

// TestHashTimeIsOver: a field whose time is over is not found, not listed, and
// counts as created when it is set again.
func TestHashTimeIsOver(t *testing.T) {
	t.Parallel()
	s, ns := sharedShell(t), redistest.Name(t)
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "h", "f", "v", "--ttl", "1ms")
	redistest.Eventually(t, "the field is gone", func() bool {
		return answer[struct{ Fields []any }](s, "hash", "ls", ns, "h").Fields == nil ||
			len(answer[struct{ Fields []any }](s, "hash", "ls", ns, "h").Fields) == 0
	})
	s.refused(1, "not_found", "hash", "get", ns, "h", "f")
	s.want(`{"fields":[{"field":"f","ttl_ms":-2}]}`+"\n", "--json", "hash", "ttl", ns, "h", "f")
	s.want(`{"set":true}`+"\n", "--json", "hash", "set", ns, "h", "f", "v")
}

func TestHashRefused(t *testing.T) {
	t.Parallel()
	s, ns := sharedShell(t), redistest.Name(t)
	for _, tt := range []struct {
		exit int
		code string
		args []string
	}{
		{2, "bad_name", []string{"hash", "get", "a{b}", "h", "f"}},
		{2, "bad_name", []string{"hash", "get", ns, "", "f"}},
		{2, "bad_argument", []string{"hash", "set", ns, "h", "f", "v", "--ttl", "-1s"}},
		{2, "bad_argument", []string{"hash", "ttl", ns, "h", "f", "--set", "-1s"}},
		{2, "bad_argument", []string{"hash", "ttl", ns, "h", "f", "--set", "0s"}},
		{2, "bad_usage", []string{"hash", "set", ns, "h", "f", "v", "--ttl", "1s", "--keep-ttl"}},
		{2, "bad_usage", []string{"hash", "set", ns, "h", "f"}},
		{2, "bad_usage", []string{"hash", "ttl", ns, "h"}},
	} {
		s.refused(tt.exit, tt.code, tt.args...)
	}
}
