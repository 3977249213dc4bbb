package snapshot

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redistest"
)

// gate is a way to a server through which what that says passes only while the gate
// is open. It returns the way's address.
func gate(t *testing.T, target string, open <-chan struct{}) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	pipe := func(from, to net.Conn, pass func()) {
		defer from.Close()
		defer to.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			pass()
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				return
			}
			go pipe(in, out, func() {})
			go pipe(out, in, func() { <-open })
		}
	}()
	return listener.Addr().String()
}

// A replica is saved when it has what its master had, and not if that takes long.
func TestReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	do(t, master, "SET", members.IdentityKey, members.Identity("fleet", 0))
	open := make(chan struct{})
	opened := make(chan struct{})
	go func() {
		for {
			select {
			case open <- struct{}{}:
			case <-opened:
				return
			}
		}
	}()
	host, port, _ := strings.Cut(gate(t, master.Addr(), open), ":")
	replica := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--replicaof", host, port}})
	redistest.Eventually(t, "the replica is linked", func() bool { return replica.Info("replication")["master_link_status"] == "up" })
	opened <- struct{}{} // nothing passes from now on
	do(t, master, "SET", "key", "value")

	w := &work{k: New(nil, Config{}), pool: newPool(rueidis.ClientOption{})}
	defer w.pool.Close()
	p := directory.Partition{Master: directory.Member{Addr: master.Addr()}, Replicas: []directory.Member{{Addr: replica.Addr()}}}
	m := &directory.Map{Fleet: "fleet", Partitions: []directory.Partition{p}}
	_, err := w.inStep(t.Context(), m, p, p.Replicas[0])
	wantError(t, "inStep of a replica that is behind", err, ErrNoMember)

	time.AfterFunc(100*time.Millisecond, func() { close(open) })
	if _, err := w.inStep(t.Context(), m, p, p.Replicas[0]); err != nil {
		t.Error(err)
	}
	if got := do(t, replica, "GET", "key"); got != "value" {
		t.Errorf("the replica that is in step has %q, want what its master had", got)
	}
}

func TestChoiceAfterFailures(t *testing.T) {
	t.Parallel()
	var f failures
	f.add(1, "a")
	f.add(1, "a")
	f.add(2, "a")
	for id, want := range []int{0, 2, 1} {
		if got := f.of(id, "a"); got != want {
			t.Errorf("failures of a in partition %d = %d, want %d", id, got, want)
		}
	}
	f.forget(1)
	if got := [2]int{f.of(1, "a"), f.of(2, "a")}; got != [2]int{0, 1} {
		t.Errorf("failures of a afterwards: %v, want 0 and 1", got)
	}
}
