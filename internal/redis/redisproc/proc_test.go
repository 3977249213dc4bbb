package redisproc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(orphanMode); mode != "" {
		beOrphanMaker(mode)
	}
	goleak.VerifyTestMain(m)
}

// testConfig names the server binary, and skips the test without one, except
// in CI.
func testConfig(t *testing.T) Config {
	t.Helper()
	binary := os.Getenv("MILLRACE_TEST_SERVER")
	if binary == "" {
		var err error
		binary, err = Find()
		switch {
		case err == nil:
		case os.Getenv("CI") != "":
			t.Fatal(err)
		default:
			t.Skip(err)
		}
	}
	return Config{Binary: binary}
}

func start(t *testing.T, cfg Config) *Proc {
	t.Helper()
	p, err := Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return p
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, p *Proc) rueidis.Client {
	t.Helper()
	opt, err := rueidis.ParseURL(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	opt.DisableCache = true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestZeroConfigIsPrivateAndLeavesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, testConfig(t))
	info, err := os.Stat(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), os.FileMode(0o700); got != want {
		t.Errorf("mode of the socket = %v, want %v", got, want)
	}
	c := client(t, p)
	if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
		t.Errorf("PING: %v", err)
	}
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("Done() is open after Stop")
	}
	if _, err := os.Stat(p.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server's folder after Stop: %v, want it gone", err)
	}
	if err := p.Restart(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Restart after Stop = %v, want ErrStopped", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("Kill after Stop: %v", err)
	}
}

func TestTCPListensOnLoopback(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.TCP = true
	p := start(t, cfg)
	host, _, err := net.SplitHostPort(p.Addr())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("Addr() = %q, want a port of 127.0.0.1", p.Addr())
	}
	c := client(t, p)
	if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
		t.Errorf("PING: %v", err)
	}
}

func TestRestartKeepsAddressAndAOF(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Proc) error{
		"running": func(*Proc) error { return nil },
		"killed":  (*Proc).Kill,
		"paused":  (*Proc).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			cfg.AOF = true
			cfg.Dir = t.TempDir()
			p := start(t, cfg)
			c := client(t, p)
			if err := c.Do(t.Context(), c.B().Set().Key("k").Value("v").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			addr, pid := p.Addr(), p.PID()
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			if err := p.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if got, want := p.Addr(), addr; got != want {
				t.Errorf("Addr() after Restart = %q, want %q", got, want)
			}
			if p.PID() == pid {
				t.Errorf("PID() after Restart = %d as before", pid)
			}
			c = client(t, p)
			if got, err := c.Do(t.Context(), c.B().Get().Key("k").Build()).ToString(); err != nil || got != "v" {
				t.Errorf("GET after Restart = %q, %v, want v", got, err)
			}
			if err := p.Stop(); err != nil {
				t.Errorf("Stop: %v", err)
			}
			if _, err := os.Stat(cfg.Dir); err != nil {
				t.Errorf("the caller's folder after Stop: %v, want it kept", err)
			}
		})
	}
}

// TestPortStaysWhileDown: no other process that chooses a port gets that of a server which is down, until it is stopped.
func TestPortStaysWhileDown(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.TCP = true
	p := start(t, cfg)
	port := p.place.port
	if port < lowestPort || port >= lowestPort+ports {
		t.Errorf("the port is %d, want one below those of connections", port)
	}
	claimed := func() bool {
		claim, err := net.ListenPacket("udp", address(port))
		return err != nil || claim.Close() != nil
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if !isFree(port) || !claimed() {
		t.Errorf("port %d of a server that is down: free %v, claimed %v, want both", port, isFree(port), claimed())
	}
	if err := p.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil || claimed() {
		t.Errorf("Stop = %v, and the port is claimed: %v, want it free", err, claimed())
	}
}

func TestLongDirKeepsSocketShort(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Dir = filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, cfg)
	if got := len(p.Addr()); got > maxSocketPath {
		t.Errorf("socket path of %d bytes, want at most %d", got, maxSocketPath)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(p.Addr())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder after Stop: %v, want it gone", err)
	}
}

func TestStartReportsTheServersLastWords(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Dir = t.TempDir()
	cfg.Args = []string{"--no-such-directive", "1"}
	p, err := Start(deadline(t), cfg)
	if err == nil {
		p.Stop()
		t.Fatal("Start with a wrong argument succeeded")
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("Start = %v, want the server's own words", err)
	}
}

func TestStartRefusesTakenPort(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.TCP = true
	first := start(t, cfg)
	cfg.Port = first.place.port
	second, err := Start(deadline(t), cfg)
	if err == nil {
		second.Stop()
		t.Fatal("Start on a port in use succeeded")
	}
	if !strings.Contains(err.Error(), "in use") {
		t.Errorf("Start = %v, want a word about the port in use", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := Start(ctx, cfg)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Start with an ended context = %v, %v, want context.Canceled", p, err)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	p := start(t, testConfig(t))
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	network, addr := p.place.addr()
	if ready(ctx, network, addr, p.PID()) {
		t.Error("a paused server answered")
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if !ready(deadline(t), network, addr, p.PID()) {
		t.Error("a resumed server does not answer")
	}
}

func TestReadyIsNotFooledByAStranger(t *testing.T) {
	t.Parallel()
	p := start(t, testConfig(t))
	network, addr := p.place.addr()
	if ready(deadline(t), network, addr, p.PID()+1) {
		t.Error("ready takes the answer of another process for the server's")
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := Find(); !errors.Is(err, ErrNotFound) {
		t.Errorf("Find on an empty PATH = %v, want ErrNotFound", err)
	}
	if _, err := Start(t.Context(), Config{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Start on an empty PATH = %v, want ErrNotFound", err)
	}
	for _, name := range []string{"valkey-server", "redis-server"} {
		want := filepath.Join(dir, name)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := Find(); err != nil || got != want {
			t.Errorf("Find() = %q, %v, want %q", got, err, want)
		}
	}
}
