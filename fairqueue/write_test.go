package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// onCall is a hook that calls a function before each call.
type onCall func(millrace.Call)

func (f onCall) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	f(call)
	return ctx, nil
}

// manyDrafts returns n drafts of as many tenants.
func manyDrafts(n int, shape Draft) []Draft {
	drafts := make([]Draft, n)
	for i := range drafts {
		drafts[i] = shape
		drafts[i].Tenant = fmt.Sprint("tenant", i)
	}
	return drafts
}

// TestBatchIsWrittenInCalls: each call has a bounded cost and is applied whole. A batch that
// fails in its third call returns the ids of the first two calls.
func TestBatchIsWrittenInCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cfg   Config
		shape Draft
		size  int // of a call
	}{
		{"tenants", Config{}, Draft{}, 100},
		{"dedupe ids", Config{}, Draft{DedupeID: "x"}, 50},
		{"streams", Config{Streams: 64}, Draft{}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Shared(t).Client(t)
			name, calls := redistest.Name(t), 0
			base := baseKey(name)
			cfg := tt.cfg
			cfg.Hooks = []millrace.Hook{onCall(func(call millrace.Call) {
				if !strings.HasPrefix(call.Script, "fairqueue.write") {
					return
				}
				if calls++; calls == 3 {
					do(t, client, "RENAME", base+":hot", base+":aside")
					do(t, client, "SET", base+":hot", "not a queue")
				}
			})}
			q := openOn(t, client, name, cfg)
			written, err := q.WriteBatch(t.Context(), manyDrafts(250, tt.shape)...)
			wantError(t, err, millrace.ErrBroken)
			do(t, client, "RENAME", base+":aside", base+":hot")
			want(t, "written", len(written), 2*tt.size, nil)
			wantSizes(t, q, 2*tt.size, 0, 0, 0)
			ids := map[string]bool{}
			for _, w := range written {
				ids[w.ID] = true
			}
			for _, m := range read(t, q, 250) {
				if !ids[m.ID] {
					t.Errorf("message %s waits, but was not returned", m.ID)
				}
			}
		})
	}
}

// TestWriterOfUnknownStreams: a writer that does not know that the queue has streams learns it
// by a call that writes nothing, and then makes smaller calls.
func TestWriterOfUnknownStreams(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	write(t, openOn(t, server.Client(t), "x", Config{Streams: 64}), "a:1")
	q := openOn(t, server.Client(t), "x", Config{})
	before := commands(t, server, "evalsha")
	written, err := q.WriteBatch(t.Context(), manyDrafts(100, Draft{})...)
	want(t, "written", len(written), 100, err)
	if calls := commands(t, server, "evalsha") - before; calls < 6 {
		t.Errorf("%d calls, want one that learns and five that write", calls)
	}
	wantSizes(t, q, 101, 0, 0, 0)
}
