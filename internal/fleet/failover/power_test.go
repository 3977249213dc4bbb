package failover

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// again starts the server of a member in its folder and at its address, with its boot fence and
// more arguments.
func (w *world) again(member devfleet.Server, args ...string) *redisproc.Proc {
	w.t.Helper()
	_, port, err := net.SplitHostPort(member.Addr)
	must(w.t, err)
	number, err := strconv.Atoi(port)
	must(w.t, err)
	proc, err := redisproc.Start(w.t.Context(), redisproc.Config{
		Binary: redistest.Binary(w.t), Dir: member.Proc.Dir(), Port: number,
		Args: append([]string{"--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no"}, args...),
	})
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, errors.Join(proc.Kill(), proc.Stop())) })
	return proc
}

// logOn gives a running server an append-only file.
func logOn(t *testing.T, addr string) {
	t.Helper()
	d, ctx := direct(t, addr), t.Context()
	must(t, d.Do(ctx, d.B().ConfigSet().ParameterValue().ParameterValue("appendfsync", "always").Build()).Error())
	must(t, d.Do(ctx, d.B().ConfigSet().ParameterValue().ParameterValue("appendonly", "yes").Build()).Error())
	redistest.Eventually(t, "the append-only file is written", func() bool {
		text, err := d.Do(ctx, d.B().Info().Section("persistence").Build()).ToString()
		return err == nil && contains(text, "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_bgrewrite_status:ok")
	})
}

// TestACompleteLogWins: both members are killed within half a second. The master comes back with
// a complete append-only file, and so with a replication id of chance; its replica comes back with
// an old dump, which has the id that the map knows.
func TestACompleteLogWins(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	w.agent()
	f := w.client(fleet.Config{WaitReplicas: 1})
	c, ctx := f.Client(), t.Context()
	w.settled(f, 0)
	set := func(value string) {
		t.Helper()
		must(t, retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error { return c.Do(ctx, c.B().Set().Key("{a}").Value(value).Build()).Error() }))
	}
	set("old")
	p := w.mapNow().Partitions[0]
	master, replica := w.server(p.Master.Addr), w.server(p.Replicas[0].Addr)
	d := direct(t, replica.Addr)
	save(t, d)
	logOn(t, master.Addr)
	w.beats(0, 2)
	set("new")
	must(t, master.Proc.Kill())
	must(t, replica.Proc.Kill())
	w.again(master, "--appendonly", "yes")
	must(t, replica.Proc.Restart(ctx))
	w.settled(f, 0)
	events, err := w.dir.Events(ctx)
	must(t, err)
	for _, e := range events {
		if contains(e.What, "lost its data") || contains(e.What, "boot fence") {
			t.Errorf("the log says %q, want no complaint about members that came back as they should", e.What)
		}
	}
	for _, m := range w.mapNow().Partitions[0].Members() {
		d := direct(t, m.Addr)
		if got, err := d.Do(ctx, d.B().Get().Key("{a}").Build()).ToString(); got != "new" || err != nil {
			t.Errorf("%s has %q, %v, want what the complete append-only file has", m.Addr, got, err)
		}
	}
}
