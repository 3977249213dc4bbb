package ick

import (
	"context"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// beforeRepeat is a hook that calls a function before the second try of a script.
type beforeRepeat struct {
	script string
	call   func()
}

func (b beforeRepeat) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Script == b.script && call.Try == 2 {
		b.call()
	}
	return ctx, nil
}

// TestDropDropsNothingNew loses the reply of a Drop. Before the repeat the member changes again,
// fails, and is parked again: that mark must stay.
func TestDropDropsNothingNew(t *testing.T) {
	t.Parallel()
	play := func(scripts *script.Library) (dropped, parked int) {
		k, proxy := proxied(t, Config{})
		other := open(t, Config{}) // not through the proxy
		other.name = k.name
		scripttest.Load(t, k.run.Client, scripts)
		parkA := func() {
			wantAdd(t, other, "a1", 1, 0)
			token := wantReserve(t, other, 1, "a1")
			if n, err := other.park(t.Context(), token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"a"}); n != 1 || err != nil {
				t.Fatalf("park = %d, %v, want 1", n, err)
			}
		}
		parkA()
		k.run.Scripts = scripts
		k.run.Hooks = []millrace.Hook{beforeRepeat{"ick.unpark", parkA}}
		proxy.DropReply(evalsha)
		dropped, err := k.Drop(t.Context(), "a")
		if err != nil || proxy.Dropped() != 1 {
			t.Fatalf("Drop = %v with %d lost replies, want 1", err, proxy.Dropped())
		}
		s, err := other.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return dropped, s.Parked
	}
	if dropped, parked := play(library); dropped != 1 || parked != 1 {
		t.Errorf("%d dropped and %d parked, want 1 of the first time and 1 of the second", dropped, parked)
	}
	if _, parked := play(scripttest.Without(t, library, "elseif answered then", "elseif false then")); parked != 0 {
		t.Errorf("%d parked without the lane, want 0: the test shows nothing", parked)
	}
}
