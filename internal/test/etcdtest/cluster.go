package etcdtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Options says how to run a cluster. The zero value is one of three members.
type Options struct {
	// Members is how many members there are. Defaults to 3.
	Members int

	// Args are further arguments of each member. Defaults to none.
	Args []string

	// Secure says that Args has clients connect over TLS. Defaults to false.
	Secure bool
}

// Cluster is a cluster that ends with its test.
type Cluster struct {
	Members []*Member

	t testing.TB
}

// Member is one member of a cluster.
type Member struct {
	t       testing.TB
	binary  string
	args    []string
	env     []string
	log     string
	direct  string // where it listens for clients
	addr    string // where clients reach it, unless they are cut off
	peers   *gate
	clients *gate

	process *os.Process
	done    chan struct{} // closed when the process has ended
}

var quiet = log.New(io.Discard, "", 0)

// Start starts a cluster, and returns when it has a leader.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	binary := Binary(t)
	if opts.Members == 0 {
		opts.Members = 3
	}
	c := &Cluster{t: t, Members: make([]*Member, opts.Members)}
	listeners := map[string]string{} // of peers, by the address that they name
	var names []string
	for i := range c.Members {
		c.Members[i] = &Member{t: t, binary: binary, peers: newGate(), clients: newGate(), direct: freeAddr(t)}
		listeners[peerAddr(i)] = freeAddr(t)
		names = append(names, fmt.Sprintf("m%d=http://%s", i, peerAddr(i)))
	}
	scheme := "http://"
	if opts.Secure {
		scheme = "https://"
	}
	for i, m := range c.Members {
		dir := t.TempDir()
		m.log = filepath.Join(dir, "log")
		m.addr = forward(t, m.direct, m.clients)
		proxy := relay(t, func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", listeners[addr])
			if err != nil {
				return nil, err
			}
			return newGated(conn, m.peers, c.at(addr).peers), nil
		})
		m.env = append(os.Environ(), "HTTP_PROXY=http://"+proxy, "NO_PROXY=", "http_proxy=", "no_proxy=")
		// Tests end processes, never the machine. So nothing is lost without fsync, and a slow disk does not
		// make a member silent.
		m.args = append([]string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", scheme + m.direct, "--advertise-client-urls", scheme + m.addr,
			"--listen-peer-urls", "http://" + listeners[peerAddr(i)], "--initial-advertise-peer-urls", "http://" + peerAddr(i),
			"--initial-cluster", strings.Join(names, ","), "--initial-cluster-state", "new",
			"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn",
		}, opts.Args...)
	}
	for _, m := range c.Members {
		m.launch()
		t.Cleanup(m.Kill)
	}
	if !opts.Secure {
		c.Leader()
	}
	return c
}

// peerAddr returns the address that the peers of a member know: one that no host has, so that
// they ask their proxies for it.
func peerAddr(i int) string { return fmt.Sprintf("192.0.2.%d:2380", i+1) }

// at returns the member that its peers know by an address.
func (c *Cluster) at(addr string) *Member {
	for i, m := range c.Members {
		if peerAddr(i) == addr {
			return m
		}
	}
	panic("no member at " + addr)
}

// freeAddr returns an address on which no process listens. Its port is below those that systems
// assign automatically, so no process takes it before etcd does.
func freeAddr(t testing.TB) string {
	t.Helper()
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		listener, err := net.Listen("tcp", addr)
		if err == nil {
			listener.Close()
			return addr
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// URL returns the URL of a fleet in the cluster.
func (c *Cluster) URL(fleet string) string {
	var addrs []string
	for _, m := range c.Members {
		addrs = append(addrs, m.addr)
	}
	return "etcd://" + strings.Join(addrs, ",") + "/" + fleet
}

// Leader returns the member that leads a majority. It waits until there is one, without those
// that are killed, frozen or cut off.
func (c *Cluster) Leader() *Member {
	c.t.Helper()
	var leader *Member
	redistest.Eventually(c.t, "etcd has a leader", func() bool {
		for _, m := range c.Members {
			if m.leads() {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// Follower returns a member that does not lead.
func (c *Cluster) Follower() *Member {
	c.t.Helper()
	leader := c.Leader()
	if c.Members[0] == leader {
		return c.Members[1]
	}
	return c.Members[0]
}

// leads reports whether the member leads, and a majority still follows it.
func (m *Member) leads() bool {
	client, err := m.dial()
	if err != nil {
		return false
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	status, err := client.Status(ctx, m.direct)
	if err != nil || status.Leader != status.Header.MemberId {
		return false
	}
	_, err = client.Get(ctx, "nothing") // linearizable
	return err == nil
}

func (m *Member) dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{m.direct}, Logger: zap.NewNop()})
}

// Client returns a client of this member, which no cut of its clients concerns. It ends with
// the test.
func (m *Member) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := m.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Addr returns where clients reach the member.
func (m *Member) Addr() string { return m.addr }

// Direct returns where the member listens, without a proxy that can be cut.
func (m *Member) Direct() string { return m.direct }

// PID returns its process id.
func (m *Member) PID() int { return m.process.Pid }

// launch starts the process.
func (m *Member) launch() {
	m.t.Helper()
	file, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(m.binary, m.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = m.env, file, file, redisproc.Attributes()
	done, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // the process ends with the thread that started it
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		m.t.Fatal(err)
	}
	m.process, m.done = cmd.Process, done
}

// Kill ends the member with SIGKILL.
func (m *Member) Kill() {
	_ = m.process.Kill()
	<-m.done
}

// Restart starts a member again that was killed.
func (m *Member) Restart() {
	m.t.Helper()
	m.launch()
}

// Freeze stops the process: its connections stay, and it does not answer.
func (m *Member) Freeze() { m.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (m *Member) Thaw() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// CutPeers cuts the member off from its peers.
func (m *Member) CutPeers() { m.peers.cut() }

// CutClients cuts the member off from its clients.
func (m *Member) CutClients() { m.clients.cut() }

// Heal ends all cuts.
func (m *Member) Heal() {
	m.peers.heal()
	m.clients.heal()
}

// Log returns the end of the member's log.
func (m *Member) Log() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-4000):]))
}
