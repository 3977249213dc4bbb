package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestLeaseLsBroken: a lease under whose key something else lies hides no other.
func TestLeaseLsBroken(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	for _, one := range []string{name + "-1", name + "-2"} {
		s.run("lease", "acquire", one, "--ttl", "1h")
	}
	client := redistest.Shared(t).Client(t)
	if err := client.Do(t.Context(), client.B().Set().Key("mr:lease:{"+name+"-1}").Value("foreign").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got := s.run("lease", "ls", name); got.code != 1 || !strings.Contains(got.stdout, name+"-2") || !strings.Contains(got.stderr, name+"-1") {
		t.Errorf("lease ls: %+v", got)
	}
	s.run("lease", "release", name+"-2")
	if err := client.Do(t.Context(), client.B().Del().Key("mr:lease:{"+name+"-1}").Build()).Error(); err != nil {
		t.Error(err)
	}
}
