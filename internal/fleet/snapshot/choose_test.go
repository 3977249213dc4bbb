package snapshot

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// gate proxies a server, whose replies pass only while the gate is open. It returns the
// proxy's address.
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

// A replica is saved when it has caught up with its master, and not if that takes long.
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

// TestChoiceAfterFailures: each member is tried after the one that failed last, whichever keeper
// tried that, if it can be saved.
func TestChoiceAfterFailures(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 3, Partitions: 1, Replicas: 2})
	k := b.keeper(Config{})
	w := &work{k: k, pool: newPool(rueidis.ClientOption{})}
	defer w.pool.Close()
	s, err := k.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := s.m.Partitions[0]
	master, one, two := p.Master.Addr, p.Replicas[0].Addr, p.Replicas[1].Addr
	chosen := func(down bool) []string {
		p.Replicas[1].Down = down
		var all []string
		for _, failed := range []string{"", one, two, master} {
			s.Partitions[0].Failed.Addr = failed
			member, err := w.choose(t.Context(), s, p)
			if err != nil {
				t.Error(err)
			}
			all = append(all, member.Addr)
		}
		return all
	}
	if got, want := chosen(false), []string{one, two, master, one}; !slices.Equal(got, want) {
		t.Errorf("after no failure, and one of each member, the choice is %q, want %q", got, want)
	}
	if got, want := chosen(true), []string{one, master, master, one}; !slices.Equal(got, want) {
		t.Errorf("the same while %s is down: %q, want %q", two, got, want)
	}
}
