package ick

import (
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsKeepTheRules runs the checks of luacheck on each script: commands of Redis 6.2, keys of one slot,
// its header.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
	scripttest.Check(t, channelLibrary)
}

// TestKeysShareASlot asks a real cluster, and runs an Ick of each accepted shape
// of name on it.
func TestKeysShareASlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	client := cluster.Client(t)
	slot := func(key string) int64 {
		t.Helper()
		n, err := client.Do(t.Context(), client.B().Arbitrary("CLUSTER", "KEYSLOT", key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	accepted := 0
	for _, name := range []string{
		"plain", "with:colons", "x", "{a}bc", "a{b}c", "{a}{b}", "a{b}c}d{", "{}abc", "abc{}", "x}y", "a{b", "}{", "{", "}", "{{a}}", "a{{b}c",
	} {
		same := true
		for _, key := range keys(name) {
			same = same && slot(key) == slot(name)
		}
		k, err := New(client, name, Config{})
		if same != (err == nil) {
			t.Errorf("New(%q) = %v, but its keys share a slot: %v", name, err, same)
		}
		if err != nil {
			continue
		}
		accepted++
		wantAdd(t, k, "a1 b2", 2, 0)
		token := wantReserve(t, k, 1, "a1")
		wantExchange(t, k, token, "a", 2, 1, 0, "b2")
		if s, err := k.Stats(t.Context()); err != nil || s.Total != 1 {
			t.Errorf("stats of %q = %+v, %v, want one member", name, s, err)
		}
	}
	listed := map[string]bool{}
	for name, err := range List(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		listed[name] = true
	}
	if len(listed) != accepted || accepted < 7 {
		t.Errorf("List finds %d Icks on all masters, want the %d accepted ones: %v", len(listed), accepted, listed)
	}
}
