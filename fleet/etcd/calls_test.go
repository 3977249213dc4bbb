package etcd

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
)

// intercept has do make the calls of a store that has made none yet. The name of a call
// is Range, Txn, Put and so on.
func intercept(s *store, do func(call string, invoke func() error) error) {
	for _, m := range s.members {
		m.config.DialOptions = append(m.config.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return do(method[strings.LastIndexByte(method, '/')+1:], func() error { return invoke(ctx, method, req, reply, conn, opts...) })
			}))
	}
}

// TestLostReplies: etcd executes calls, and the replies are lost. Each takes effect once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s := dialStore(t, cluster.URL("fleet"))
	d := directory.New(s)
	var lost atomic.Int64
	random := rand.New(rand.NewPCG(1, 2)) // calls are made one after the other
	intercept(s, func(call string, invoke func() error) error {
		err := invoke()
		if err == nil && call != "Range" && random.IntN(2) == 0 {
			lost.Add(1)
			return status.Error(codes.Unavailable, "etcdserver: request timed out")
		}
		return err
	})
	ctx := t.Context()
	if err := d.Change(ctx, 0, directorytest.Sample(t, 1)); err != nil {
		t.Errorf("Change = %v", err)
	}
	if leads, err := d.Lead(ctx, "a", 1e10); err != nil || !leads {
		t.Errorf("Lead = %t, %v", leads, err)
	}
	if has, err := d.Turn(ctx, "n", "a", 1e10); err != nil || !has {
		t.Errorf("Turn = %t, %v", has, err)
	}
	if has, err := d.Turn(ctx, "n", "a", 0); err != nil || !has {
		t.Errorf("Turn = %t, %v", has, err)
	}
	if err := d.Unfinished(ctx, "run"); err != nil {
		t.Errorf("Unfinished = %v", err)
	}
	if end, adopted, err := directory.AdoptMoves(ctx, d); err != nil || !adopted {
		t.Errorf("AdoptMoves = %t, %v", adopted, err)
	} else {
		end(true)
	}
	if err := d.Note(ctx, directory.Event{What: "x"}); err != nil {
		t.Errorf("Note = %v", err)
	}
	if events, err := d.Events(ctx); err != nil || len(events) != 1 {
		t.Errorf("Events = %v, %v, want one", events, err)
	}
	if lost.Load() < 6 {
		t.Errorf("%d replies were lost, want some", lost.Load())
	}
}
