package pinned

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestValuesAreBounded: a value that is too large for one call is refused before Redis is
// asked.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "n", Config{})
	large := bytes.Repeat([]byte("x"), shards.MaxValue+1)
	before := shardstest.Asked(server)
	_, err := k.Set(t.Context(), "a", large, keyLong, SetConfig{})
	wantKeyError(t, "Set", err, millrace.ErrTooLarge)
	after := shardstest.Asked(server)
	delete(before, "info")
	delete(after, "info")
	wantKey(t, "commands", after, before, nil)
	setKey(t, k, "a", string(large[:shards.MaxValue]), keyLong)
	wantKey(t, "length", len(getKey(t, k, "a")), shards.MaxValue, nil)
}

// TestRepliesAreBounded: large values come in calls of about a mebibyte each.
func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "n", Config{Shards: 1})
	const n, size = 40, 100_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
		setKey(t, k, names[i], strings.Repeat("x", size), keyLong)
	}
	largest := func(bytes int) int {
		reply := shardstest.Measure(server)
		k.space.PageBytes, k.space.Run.Hooks = bytes, []millrace.Hook{reply}
		many, err := k.GetMany(t.Context(), names...)
		wantKey(t, "values", len(many), n, err)
		return reply.Bytes
	}
	const most = 1<<20 + 2*size
	if got := largest(script.MaxBytes); got > most {
		t.Errorf("a reply has %d bytes", got)
	}
	if got := largest(1e9); got <= most {
		t.Errorf("a reply has %d bytes without a limit: this shows nothing", got)
	}
}

// TestNothingStaysForEver: when the last value is gone, and the lanes are old, a namespace
// keeps a few small keys, the same whatever it held.
func TestNothingStaysForEver(t *testing.T) {
	t.Parallel()
	if err := leaveBehind(t, kind.Library); err != nil {
		t.Error(err)
	}
	if leaveBehind(t, scripttest.Without(t, kind.Library, "\ntidy_lanes()\n", "\n")) == nil {
		t.Error("old lanes are forgotten by themselves: this shows nothing")
	}
}

// leaveBehind uses a namespace, a little and then much, until it is empty. It returns
// an error if too much remains.
func leaveBehind(t *testing.T, library *script.Library) (wrong error) {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openOn(t, client, "n", Config{Shards: 1})
	k.space.Run.Scripts = library
	ctx := t.Context()
	remove := func(name string) {
		if _, err := k.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	use := func(n int) []string {
		for i := range n {
			name := fmt.Sprint(i)
			setKey(t, k, name, "x", keyLong)
			setKey(t, k, name+" over", "x", keyLong)
			keyOver(t, k, name+" over")
			remove(name)
		}
		k.space.Run.Lanes = &reqid.Lanes{} // so many calls at once have as many lanes
		for range n {
			k.space.Run.Request(ctx)
			setKey(t, k, "last", "x", keyLong)
		}
		remove("last")
		shardstest.AgeLanes(t, client, keyBase(t, k, "a"))
		for range 3 {
			if _, err := k.Jobs()[0].Slice(ctx); err != nil {
				t.Fatal(err)
			}
		}
		left, err := shardstest.KeysLeft(t, client)
		wrong = errors.Join(wrong, err)
		return left
	}
	few := use(2)
	if len(few) != 6 { // the record, and five keys of the shard
		wrong = fmt.Errorf("left are %v", few)
	}
	if diff := cmp.Diff(few, use(100)); diff != "" {
		wrong = fmt.Errorf("keys after more use (-want +got):\n%s", diff)
	}
	return wrong
}
