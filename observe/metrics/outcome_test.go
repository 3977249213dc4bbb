package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{errors.New("anything"), "error"},
		{millrace.ErrFull, "full"},
		{fmt.Errorf("index: %w", lease.ErrLost.Wrap(context.Canceled)), "lost"},
		{fmt.Errorf("index: %w", context.Canceled), "interrupted"},
		{context.DeadlineExceeded, "timeout"},
		{loop.Protect(func() error { panic("a bug") }), "panic"},
		{&millrace.Error{Code: "Not a code: " + strings.Repeat("x", 20)}, "error"},
		{&millrace.Error{Code: strings.Repeat("x", maxCode+1)}, "error"},
		{&millrace.Error{Code: "error", Message: "a code like any other"}, "error"},
	}
	var o outcomes
	for _, tc := range tests {
		if got := o.of(tc.err); got != tc.want {
			t.Errorf("outcome of %v = %q, want %q", tc.err, got, tc.want)
		}
	}
}

// TestOutcomesAreFew: a program that puts an id into its codes does not make a
// series for each.
func TestOutcomesAreFew(t *testing.T) {
	t.Parallel()
	var o outcomes
	seen := map[string]bool{}
	for i := range 10 * maxCodes {
		seen[o.of(&millrace.Error{Code: fmt.Sprintf("order_%d", i)})] = true
	}
	if got, want := len(seen), maxCodes+1; got != want {
		t.Errorf("outcomes = %d, want %d", got, want)
	}
	if got, want := o.of(&millrace.Error{Code: "order_0"}), "order_0"; got != want {
		t.Errorf("outcome of a code that was there first = %q, want %q", got, want)
	}
}

// TestOutcomesOfReplies: refusals that servers word in different ways have one outcome.
func TestOutcomesOfReplies(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	var o outcomes
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                              "full",
		"@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.":            "full",
		"NOPERM this user has no permissions to run the 'set' command":                         "no_permission",
		"@user_script: 1: The user executing the script can't run this command or subcommand":  "no_permission",
		"ERR ACL failure in script: No permissions to access a key":                            "no_permission",
		"WRONGTYPE Operation against a key holding the wrong kind of value":                    "wrongtype",
		"@user_script: 1: Lua script attempted to execute a command while the cluster is down": "error",
	} {
		reply := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build())
		if got := o.of(reply.Error()); got != want {
			t.Errorf("outcome of %q = %q, want %q", text, got, want)
		}
	}
}
