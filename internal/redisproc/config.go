package redisproc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrNotFound says that no server binary is on PATH.
var ErrNotFound = errors.New("no redis-server or valkey-server on PATH; install one (apt install redis-server, brew install redis)")

// Find returns the path of redis-server, else of valkey-server, or
// ErrNotFound.
func Find() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNotFound
}

// Config says how to run one server. The zero value runs what Find finds, in
// a temporary folder, on a private unix socket, without persistence.
type Config struct {
	// Binary is the server to run. Defaults to what Find finds.
	Binary string

	// Dir is the server's working folder: its log, its append-only file. It
	// must exist and is never removed. Defaults to a temporary folder, which
	// Stop removes.
	Dir string

	// Socket is the path of the unix socket. Defaults to a short path in Dir,
	// or in a temporary folder of its own when Dir is too long for a socket.
	// Unused when the server listens on TCP.
	Socket string

	// Port is the TCP port to listen on, at 127.0.0.1, instead of a socket.
	// Defaults to none.
	Port int

	// TCP listens on a free port of 127.0.0.1 instead of a socket, unless Port
	// names one. Defaults to false.
	TCP bool

	// Cluster runs the server in cluster mode, which implies TCP; a free port
	// is one whose cluster bus port (10000 above) is free too. Defaults to
	// false.
	Cluster bool

	// Sentinel, when not empty, runs the binary as a Sentinel, which implies
	// TCP. It holds the "sentinel ..." lines of the configuration; the file
	// itself is written to Dir, where the Sentinel rewrites it. AOF, MaxMemory,
	// Policy and Args do not apply. Defaults to none.
	Sentinel string

	// AOF keeps an append-only file in Dir, so that every acknowledged write
	// survives Kill followed by Restart. Defaults to false.
	AOF bool

	// MaxMemory is the memory limit in the server's notation, such as "64mb".
	// Defaults to no limit.
	MaxMemory string

	// Policy is the maxmemory-policy. Defaults to the server's own default,
	// noeviction.
	Policy string

	// Args are further command line arguments for the server; they win over
	// those made from the other fields. Defaults to none.
	Args []string
}

// maxSocketPath is the longest socket path, in bytes, that every unix takes.
const maxSocketPath = 100

// place is where one server lives: settled once, kept over restarts.
type place struct {
	dir    string
	socket string   // empty when the server listens on TCP
	port   int      // 0 when the server listens on a socket
	temps  []string // folders that Stop removes
}

func (c *Config) tcp() bool {
	return c.TCP || c.Port != 0 || c.Cluster || c.Sentinel != ""
}

// settle chooses folder and socket, but not yet a free port.
func (c *Config) settle() (pl place, err error) {
	temp := func() (string, error) {
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
	defer func() {
		if err != nil {
			err = errors.Join(err, pl.remove())
		}
	}()

	if pl.dir, err = c.Dir, nil; pl.dir == "" {
		if pl.dir, err = temp(); err != nil {
			return pl, fmt.Errorf("redisproc: folder for the server: %w", err)
		}
	}
	if pl.dir, err = filepath.Abs(pl.dir); err != nil {
		return pl, fmt.Errorf("redisproc: folder for the server: %w", err)
	}
	if c.tcp() {
		pl.port = c.Port
		return pl, nil
	}
	if pl.socket = c.Socket; pl.socket == "" {
		if pl.socket = filepath.Join(pl.dir, "s"); len(pl.socket) > maxSocketPath {
			short, err := temp()
			if err != nil {
				return pl, fmt.Errorf("redisproc: folder for the socket: %w", err)
			}
			pl.socket = filepath.Join(short, "s")
		}
	}
	if pl.socket, err = filepath.Abs(pl.socket); err != nil {
		return pl, fmt.Errorf("redisproc: socket: %w", err)
	}
	if len(pl.socket) > maxSocketPath {
		return pl, fmt.Errorf("redisproc: socket path of %d bytes, at most %d work everywhere: choose a shorter Config.Socket", len(pl.socket), maxSocketPath)
	}
	return pl, nil
}

// remove removes what settle made.
func (pl *place) remove() error {
	var errs []error
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

// maxTCPPort is the highest port number.
const maxTCPPort = 65535

// busOffset is the distance of the cluster bus port from the data port.
const busOffset = 10000

// freePort returns a port that was free a moment ago, with a free
// bus port if bus is set.
func freePort(bus bool) (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("redisproc: free port: %w", err)
		}
		port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
		ok := !bus || portFree(port+busOffset)
		l.Close()
		if ok {
			return port, nil
		}
	}
}

func portFree(port int) bool {
	if port > maxTCPPort {
		return false
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
