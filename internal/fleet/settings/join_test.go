package settings

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

// joining is a directory in which a replica joins just before a change of settings is
// complete.
type joining struct {
	*directory.Redis

	joins  string
	joined atomic.Bool
}

func (d *joining) Change(ctx context.Context, epoch int64, next *directory.Map) error {
	if next.Next == nil && !d.joined.Swap(true) {
		m, err := d.Confirm(ctx, 0)
		if err != nil {
			return err
		}
		_, err = replace(ctx, d.Redis, m, func(m *directory.Map) {
			p := &m.Partitions[0]
			p.Replicas = append(p.Replicas, directory.Member{Addr: d.joins})
		})
		if err != nil {
			return err
		}
	}
	return d.Redis.Change(ctx, epoch, next)
}

// TestAMemberLeavesMeanwhile: until it has left elections may choose it, and it may lack what
// the other replica confirmed.
func TestAMemberLeavesMeanwhile(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1), t.Context()
	_, err := replace(ctx, tf.dir, tf.present(), func(m *directory.Map) {
		m.Partitions[0].Leaving = &directory.Member{Addr: "127.0.0.1:1"}
	})
	must(t, err)
	told, done := make(chan string, 100), make(chan error, 1)
	go func() {
		_, err := Change(ctx, tf.dir, func(s *directory.Settings) { s.Confirmed = 2 }, Config{Option: slowly, Progress: func(step string) { told <- step }})
		done <- err
	}()
	for waits := false; !waits; {
		select {
		case step := <-told:
			waits = strings.HasPrefix(step, "not yet") && strings.Contains(step, "leaves")
		case err := <-done:
			t.Fatalf("the change is complete, %v, and a member that leaves may be elected alone", err)
		}
	}
	_, err = replace(ctx, tf.dir, tf.present(), func(m *directory.Map) { m.Partitions[0].Leaving = nil })
	must(t, err)
	must(t, <-done)
}

// TestAReplicaJoinsMeanwhile, and lags: elections rely on more copies only when that one has
// what was confirmed, too. It might be the only one that answers.
func TestAReplicaJoinsMeanwhile(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1), t.Context()
	late := redistest.Start(t, redistest.Options{TCP: true})
	dir := &joining{Redis: tf.dir, joins: late.Addr()}
	told, done := make(chan string, 100), make(chan error, 1)
	go func() {
		_, err := Change(ctx, dir, func(s *directory.Settings) { s.Confirmed = 2 }, Config{Option: slowly, Progress: func(step string) { told <- step }})
		done <- err
	}()
	for waits := false; !waits; {
		select {
		case step := <-told:
			waits = strings.HasPrefix(step, "not yet: 1 of 2")
		case err := <-done:
			t.Fatalf("the change is complete, %v, and a replica lacks what was confirmed", err)
		}
	}
	if m := tf.present(); m.Waits().Confirmed != 1 {
		t.Errorf("elections rely on %d copies, and a replica has none", m.Waits().Confirmed)
	}
	host, port, err := net.SplitHostPort(tf.present().Partitions[0].Master.Addr)
	must(t, err)
	c := late.Client(t)
	must(t, c.Do(ctx, c.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
	must(t, <-done)
	if m := tf.present(); m.Waits().Confirmed != 2 || m.Next != nil {
		t.Errorf("the map is %+v, want it to rely on 2 copies", m)
	}
}
