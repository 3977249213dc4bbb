package redistest

import (
	"slices"
	"testing"

	"github.com/redis/rueidis"
)

// TestSlotMoves moves a slot key by key, and back.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := Cluster(t, 3, 0)
	c := cluster.Client(t)
	for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
		set(t, c, key, key)
	}
	read := func(keys ...string) error {
		return c.Do(t.Context(), c.B().Arbitrary("MGET").Keys(keys...).Build()).Error()
	}
	home := cluster.MasterOf("{k}1")
	m := cluster.BeginMigration(t, "{k}1")
	if m.From != home || m.To == home {
		t.Fatalf("the slot moves from %s to %s, and is at %s", m.From.Addr(), m.To.Addr(), home.Addr())
	}
	if err := read("{k}1", "{k}2"); err != nil {
		t.Errorf("MGET of keys that have not moved: %v", err)
	}
	m.Move(t, "{k}1", "{k}never")
	left := m.Left(t)
	slices.Sort(left)
	if !slices.Equal(left, []string{"{k}2", "{k}3"}) {
		t.Errorf("left are %q", left)
	}
	single := m.From.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
	err := single.Do(t.Context(), single.B().Mget().Key("{k}1", "{k}2").Build()).Error()
	reply, ok := rueidis.IsRedisErr(err)
	if ok {
		if _, asks := reply.IsAsk(); asks { // Redis 6.2 leaves it to the node to which they move
			moved := m.To.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
			err = moved.DoMulti(t.Context(), moved.B().Asking().Build(), moved.B().Mget().Key("{k}1", "{k}2").Build())[1].Error()
			reply, ok = rueidis.IsRedisErr(err)
		}
	}
	if !ok || !reply.IsTryAgain() {
		t.Errorf("MGET of keys that are apart: %v, want TRYAGAIN", err)
	}
	if got := get(t, c, "{k}1"); got != "{k}1" {
		t.Errorf("GET of a key that has moved = %q", got)
	}
	m.Finish(t)
	if cluster.MasterOf("{k}1") != m.To {
		t.Error("the slot has not moved")
	}
	m.Return(t, "{k}1").Finish(t)
	if cluster.MasterOf("{k}1") != home {
		t.Error("the slot has not moved back")
	}
	for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
		if got := get(t, c, key); got != key {
			t.Errorf("GET of %q = %q afterwards", key, got)
		}
	}
}
