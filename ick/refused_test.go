package ick

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsRefuseWrongCalls makes calls that a program in another language may get wrong: each is
// refused and changes nothing.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "parked1 a2 b3 c4", 4, 0)
	token := wantReserve(t, k, 1, "parked1")
	if n, err := k.park(t.Context(), token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"parked"}); n != 1 || err != nil {
		t.Fatalf("park = %d, %v, want 1", n, err)
	}
	token = wantReserve(t, k, 2, "a2 b3")
	many := slices.Repeat([]string{"a"}, chunk+1)
	long := strings.Repeat("x", maxReason+1)
	const nonce = "ABCDEFGH"
	scripttest.RefusesWhole(t, &k.run, k.name, k.name+"*", map[string][]string{
		"reserve of x":               {"exchange", "", "x", "0", "0", "0", nonce},
		"reserve of 1.5":             {"exchange", "", "3.5", "0", "0", "0", nonce},
		"reserve of -1":              {"exchange", "", "-1", "0", "0", "0", nonce},
		"reserve of nothing":         {"exchange", "", "", "0", "0", "0", nonce},
		"reserve from x":             {"exchange", "", "3", "x", "0", "0", nonce},
		"reserve of inf":             {"exchange", "", "inf", "0", "0", "0", nonce},
		"settle of 1e3":              {"exchange", "", "3", "0", "1e3", "0", nonce},
		"reserve without a nonce":    {"exchange", "", "3", "0", "0", "0", ""},
		"a short nonce":              {"exchange", "", "3", "0", "0", "0", "ABC"},
		"a long nonce":               {"exchange", "", "3", "0", "0", "0", strings.Repeat("A", 17)},
		"a nonce with a space":       {"exchange", "", "3", "0", "0", "0", "ABCD EFGH"},
		"arguments missing":          {"exchange", "", "3", "0"},
		"commit, and a reserve of x": {"exchange", token, "x", "0", "0", "0", nonce, "a"},
		"commit, and settle of x":    {"exchange", token, "3", "0", "x", "0", nonce, "a"},
		"commit, and no nonce":       {"exchange", token, "3", "0", "0", "0", "", "a"},
		"commit of too many":         append([]string{"exchange", token, "0", "0", "0", "0", ""}, many...),
		"park after x":               {"park", token, "x", "1000", "1000", "why", "a"},
		"park for x":                 {"park", token, "3", "x", "1000", "why", "a"},
		"park for -1":                {"park", token, "3", "-1", "1000", "why", "a"},
		"park for x at most":         {"park", token, "3", "1000", "", "why", "a"},
		"park for a long reason":     {"park", token, "3", "1000", "1000", long, "a"},
		"park of too many":           append([]string{"park", token, "3", "1000", "1000", "why"}, many...),
		"unpark in an unknown way":   {"unpark", "remove", "parked"},
		"unpark of too many":         append([]string{"unpark", "retry"}, many...),
		"retire under no epoch":      {"retire", "x"},
		"add of x":                   {"add", "x", "y"},
	})
	wantCommit(t, k, token, "a b", 2, 0)
}

// TestUnknownWayToDelete: an unknown way is the careful one.
func TestUnknownWayToDelete(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	wantAdd(t, k, "a1", 1, 0)
	if err := do(t, k.run.Client, "DEL", k.name).Error(); err != nil {
		t.Fatal(err)
	}
	scripttest.RefusesWhole(t, &k.run, k.name, k.name+"*", map[string][]string{"delete": {"delete", "everything"}})
}

// TestChannelScriptsRefuseWrongCalls is the same for the scripts of channels.
func TestChannelScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	c, err := NewChannel(redistest.Shared(t).Client(t), name, ChannelConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resize(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if _, err := c.call(t.Context(), "attend", "old", "1", "0", "0", "0", "0"); err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{
		"resize to 0":              {"resize", "0"},
		"resize to x":              {"resize", "x"},
		"resize to 2.5":            {"resize", "2.5"},
		"resize to 1025":           {"resize", "1025"},
		"attend without a name":    {"attend", "", "5000", "5", "5", "0", "0"},
		"attend under a long name": {"attend", strings.Repeat("x", maxConsumer+1), "5000", "5", "5", "0", "0"},
		"attend for x":             {"attend", "me", "x", "5", "5", "0", "0"},
		"attend for 1.5":           {"attend", "me", "1.5", "5", "5", "0", "0"},
		"attend, release x":        {"attend", "me", "5000", "5", "5", "0", "x"},
		"attend, release index x":  {"attend", "me", "5000", "5", "5", "0", "1", "x"},
		"attend, release -1":       {"attend", "me", "5000", "5", "5", "0", "1", "-1"},
		"leave nothing":            {"leave"},
	}
	for what, layout := range map[string][]string{
		"size x": {"x", "5", "0"}, "size 1025": {"1025", "5", "0"}, "size 1.5": {"1.5", "5", "0"},
		"span x": {"5", "x", "9999999999999999"}, "span 1025": {"5", "1025", "8999999999999999"}, "span less than size": {"7", "5", "8999999999999999"},
		"epoch x": {"5", "5", "x"}, "epoch beyond 2^53": {"5", "5", "9007199254740992"}, "epoch 1e300": {"5", "5", "1e300"},
		"no epoch": {"5", "5"},
	} {
		calls["channel, "+what] = append([]string{"channel"}, layout...)
		calls["attend, "+what] = append(append([]string{"attend", "me", "5000"}, layout...), "0")
	}
	scripttest.RefusesWhole(t, &c.run, channelKey(name), "*"+name+"*", calls)
}
