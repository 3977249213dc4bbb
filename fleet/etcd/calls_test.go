package etcd

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace/internal/etcdtest"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/directory/directorytest"
)

// intercept has do make the calls of a directory that has made none yet. The name of a call
// is Range, Txn, Put and so on.
func intercept(s *store, do func(call string, invoke func() error) error) {
	for _, m := range s.members {
		m.config.DialOptions = append(m.config.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return do(method[strings.LastIndexByte(method, '/')+1:], func() error { return invoke(ctx, method, req, reply, conn, opts...) })
			}))
	}
}

// TestSharedReads: confirmations at the same time share reads.
func TestSharedReads(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	d := dial(t, cluster.URL("fleet"))
	var reads atomic.Int64
	intercept(d, func(call string, invoke func() error) error {
		if call == "Range" {
			reads.Add(1)
		}
		return invoke()
	})
	if err := d.Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
		t.Fatal(err)
	}
	reads.Store(0)
	const callers, rounds = 100, 20
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range rounds {
				if m, err := d.Confirm(t.Context(), 1); err != nil || m != nil {
					t.Errorf("Confirm(1) = %+v, %v", m, err)
				}
			}
		})
	}
	all.Wait()
	if n := reads.Load(); n > callers*rounds/5 {
		t.Errorf("%d confirmations took %d reads, want at most a fifth", callers*rounds, n)
	} else {
		t.Logf("%d confirmations took %d reads", callers*rounds, n)
	}
}

// TestLaterReads: who asks while a read is in flight is not answered by that one: the map may
// have been replaced since it was executed.
func TestLaterReads(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	d, changer := dial(t, cluster.URL("fleet")), dial(t, cluster.URL("fleet"))
	if err := changer.Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
		t.Fatal(err)
	}
	executed, deliver := make(chan struct{}), make(chan struct{})
	var first sync.Once
	intercept(d, func(_ string, invoke func() error) error {
		err := invoke()
		first.Do(func() {
			close(executed)
			<-deliver
		})
		return err
	})
	confirm := func() <-chan *directory.Map {
		answer := make(chan *directory.Map, 1)
		go func() {
			m, err := d.Confirm(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			answer <- m
		}()
		return answer
	}
	before := confirm()
	<-executed
	if err := changer.Change(t.Context(), 1, directorytest.Sample(t, 2)); err != nil {
		t.Fatal(err)
	}
	after := confirm()
	close(deliver)
	if m := <-before; m != nil {
		t.Errorf("a confirmation that was executed before the change returns %+v", m)
	}
	if m := <-after; m == nil || m.Epoch != 2 {
		t.Errorf("a confirmation that began after the change returns %+v, want the new map", m)
	}
}

// TestLostReplies: etcd executes calls, and the replies are lost. Each takes effect once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	d := dial(t, cluster.URL("fleet"))
	var lost atomic.Int64
	random := rand.New(rand.NewPCG(1, 2)) // calls are made one after the other
	intercept(d, func(call string, invoke func() error) error {
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
	if leads, _, err := d.Lead(ctx, "a", 1e10); err != nil || !leads {
		t.Errorf("Lead = %t, %v", leads, err)
	}
	if has, err := d.Turn(ctx, "n", "a", 1e10); err != nil || !has {
		t.Errorf("Turn = %t, %v", has, err)
	}
	if has, err := d.Turn(ctx, "n", "a", 0); err != nil || !has {
		t.Errorf("Turn = %t, %v", has, err)
	}
	if err := d.Moving(ctx, "run", 1e10); err != nil {
		t.Errorf("Moving = %v", err)
	}
	if adopted, err := d.Adopt(ctx, "run", 1e10); err != nil || !adopted {
		t.Errorf("Adopt = %t, %v", adopted, err)
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
