package redisproc

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/millrace/millrace"
)

// ErrNotFound means that no server binary is on PATH.
var ErrNotFound = &millrace.Error{
	Code: "no_server", Message: "no redis-server or valkey-server is on PATH",
	Hint: "Install one: apt install redis-server, or brew install redis.",
}

// Find returns the path of redis-server, else of valkey-server, or ErrNotFound.
func Find() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNotFound
}

// FindForTests returns the server that tests run: the one that the environment variable
// MILLRACE_TEST_SERVER names, else the one of Find, or ErrNotFound.
func FindForTests() (string, error) {
	if path := os.Getenv("MILLRACE_TEST_SERVER"); path != "" {
		return path, nil
	}
	return Find()
}

// Config says how to run one server. The zero value runs the one of Find, in a temporary
// folder, on a private unix socket, without persistence and without a memory limit.
type Config struct {
	// Binary is the server to run. Defaults to the one of Find.
	Binary string

	// Dir is the server's working folder, for its log and its append-only file. It must
	// exist and is never removed. Defaults to a temporary folder, which Stop removes.
	Dir string

	// Socket is the path of the unix socket, unless the server listens on TCP. Defaults to
	// a short path in Dir, or in a temporary folder if Dir is too long for a socket.
	Socket string

	// Port is the port of 127.0.0.1 to listen on, instead of a socket. Defaults to none.
	Port int

	// TCP listens on a free port of 127.0.0.1 instead of a socket, unless Port is set.
	TCP bool

	// Cluster runs the server in cluster mode, which implies TCP. The port of the cluster
	// bus is 10000 above the server's.
	Cluster bool

	// Sentinel runs the binary as a Sentinel, which implies TCP. It holds the "sentinel ..."
	// lines of the configuration, which is written to Dir. AOF, MaxMemory, Policy and Args
	// do not apply.
	Sentinel string

	// AOF keeps an append-only file in Dir, so that every acknowledged write survives Kill
	// and Restart.
	AOF bool

	// MaxMemory is the memory limit, such as "64mb". Defaults to none.
	MaxMemory string

	// Policy is the maxmemory-policy. Defaults to noeviction.
	Policy string

	// Args are further command line arguments. They win over the other fields.
	Args []string

	// Env are further variables of its environment, as NAME=value.
	Env []string
}

// maxSocketPath is the longest socket path, in bytes, that every unix takes.
const maxSocketPath = 100

// place is where one server lives: settled once, kept over restarts.
type place struct {
	dir    string
	socket string    // empty when the server listens on TCP
	port   int       // 0 when the server listens on a socket
	claim  io.Closer // to the port; nil if the caller chose it
	temps  []string  // folders that Stop removes
}

func (c *Config) tcp() bool {
	return c.TCP || c.Port != 0 || c.Cluster || c.Sentinel != ""
}

// settle chooses folder and socket, but not yet a free port.
func (c *Config) settle() (pl place, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("redisproc: folder and socket: %w", err), pl.remove())
		}
	}()
	if pl.dir = c.Dir; pl.dir == "" {
		if pl.dir, err = pl.temp(); err != nil {
			return pl, err
		}
	}
	if pl.dir, err = filepath.Abs(pl.dir); err != nil || c.tcp() {
		pl.port = c.Port
		return pl, err
	}
	if pl.socket = c.Socket; pl.socket == "" {
		if pl.socket = filepath.Join(pl.dir, "s"); len(pl.socket) > maxSocketPath {
			short, err := pl.temp()
			if err != nil {
				return pl, err
			}
			pl.socket = filepath.Join(short, "s")
		}
	}
	if pl.socket, err = filepath.Abs(pl.socket); err == nil && len(pl.socket) > maxSocketPath {
		err = fmt.Errorf("the path of the socket has %d bytes, and at most %d work everywhere: choose a shorter Config.Socket", len(pl.socket), maxSocketPath)
	}
	return pl, err
}

// temp makes a temporary folder with a path that is short enough for a socket in it.
func (pl *place) temp() (string, error) {
	dir, err := os.MkdirTemp("", "mr-")
	if err == nil && len(dir) > maxSocketPath-2 {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "mr-")
	}
	if err == nil {
		pl.temps = append(pl.temps, dir)
	}
	return dir, err
}

// remove removes the folders that settle made.
func (pl *place) remove() error {
	errs := []error{pl.leavePort()}
	for _, dir := range pl.temps {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// addr returns the network and the address to dial.
func (pl *place) addr() (network, addr string) {
	if pl.socket != "" {
		return "unix", pl.socket
	}
	return "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(pl.port))
}

// args returns the server's command line, having written the file that a
// Sentinel insists on unless an earlier run left it.
func (c *Config) args(pl *place) ([]string, error) {
	if c.Sentinel != "" {
		return c.sentinelArgs(pl)
	}
	args := []string{
		"--daemonize", "no",
		"--dir", pl.dir,
		"--save", "",
		"--port", strconv.Itoa(pl.port),
		"--bind", "127.0.0.1",
		"--protected-mode", "yes",
	}
	if pl.socket != "" {
		args = append(args, "--unixsocket", pl.socket, "--unixsocketperm", "700")
	}
	if c.AOF {
		// Without fsync every write reaches the kernel before its reply leaves.
		// With everysec a running fsync may hold writes back for two seconds,
		// and a kill would lose them.
		args = append(args, "--appendonly", "yes", "--appendfsync", "no")
	} else {
		args = append(args, "--appendonly", "no")
	}
	if c.MaxMemory != "" {
		args = append(args, "--maxmemory", c.MaxMemory)
	}
	if c.Policy != "" {
		args = append(args, "--maxmemory-policy", c.Policy)
	}
	if c.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-announce-ip", "127.0.0.1")
	}
	return append(args, c.Args...), nil
}

func (c *Config) sentinelArgs(pl *place) ([]string, error) {
	file := filepath.Join(pl.dir, "sentinel-"+strconv.Itoa(pl.port)+".conf")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\n%s\n", pl.port, pl.dir, c.Sentinel)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("redisproc: sentinel configuration: %w", err)
		}
	}
	return []string{file, "--sentinel"}, nil
}

// Ports are from lowestPort on, and their bus ports follow: below 32768, from where on systems take
// ports for connections. So no connection has the port of a server while it is restarted.
const (
	lowestPort = 10_000
	busOffset  = 10_000
	ports      = 10_000
)

// takePort chooses a free port, whose bus port is free too if bus is set. The port stays this
// server's while it is down, since other processes that choose one respect the claim: the same
// number of UDP, which Redis does not use and which ends with this process.
func (pl *place) takePort(bus bool) error {
	err := pl.leavePort()
	for range ports {
		if err != nil {
			return err
		}
		port := lowestPort + rand.N(ports)
		claim, taken := net.ListenPacket("udp", address(port))
		if taken != nil {
			continue
		}
		if isFree(port) && (!bus || isFree(port+busOffset)) {
			pl.port, pl.claim = port, claim
			return nil
		}
		err = claim.Close()
	}
	return errors.New("redisproc: there is no free port")
}

// leavePort ends the claim to a port.
func (pl *place) leavePort() error {
	if pl.claim == nil {
		return nil
	}
	return pl.claim.Close()
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func isFree(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}
