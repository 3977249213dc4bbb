//go:build unix

// Package pgtest runs real PostgreSQL servers for tests.
//
// Start makes a cluster in a temporary folder and a server that listens on a socket there. The
// server ends with the test, and on Linux also when the test's process is killed. PostgreSQL
// refuses to run as root: then it runs as the user postgres or nobody.
//
// The package has no driver, so that each test chooses one.
package pgtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Server is a PostgreSQL server as one test sees it.
type Server struct {
	t          testing.TB
	programs   string // the folder of PostgreSQL's programs
	folder     string // of the socket and the data
	attributes *syscall.SysProcAttr

	process *os.Process
	ended   <-chan error
	said    *output
}

// Start runs a server of the test's own. Without PostgreSQL it skips the test, or fails it when
// CI is set.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, programs: find(t), attributes: &syscall.SysProcAttr{}}
	if tied := redisproc.Attributes(); tied != nil {
		*s.attributes = *tied
	}
	// A test's own folder may have too long a name for a socket, and is closed to
	// other users.
	folder, err := os.MkdirTemp("", "millrace-pg")
	if err != nil {
		t.Fatal(err)
	}
	s.folder = folder
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	s.asUnprivilegedUser()
	initdb, said := s.command("initdb", "--pgdata="+s.data(), "--username=millrace", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err := initdb.Run(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, said)
	}
	s.launch()
	t.Cleanup(func() { s.end(os.Interrupt) }) // PostgreSQL's fast shutdown
	return s
}

// DSN returns how drivers connect: as keywords and values.
func (s *Server) DSN() string { return "host=" + s.folder + " user=millrace dbname=postgres" }

// Restart ends the server at once, without a checkpoint and in the middle of its work, and
// starts it again. Committed data is there.
func (s *Server) Restart() {
	s.t.Helper()
	s.end(syscall.SIGQUIT)
	s.launch()
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(name string, args ...string) (*exec.Cmd, *output) {
	out := &output{}
	cmd := exec.Command(filepath.Join(s.programs, name), args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.folder, s.attributes, out, out
	return cmd, out
}

// launch starts the server and waits until it serves.
func (s *Server) launch() {
	s.t.Helper()
	server, said := s.command("postgres", "-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20")
	ended, err := spawn(server)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process, s.ended, s.said = server.Process, ended, said
	redistest.Eventually(s.t, "PostgreSQL serves", func() bool {
		state, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		return err == nil && strings.Contains(string(state), "ready")
	})
}

// end signals the server and waits for its end.
func (s *Server) end(signal os.Signal) {
	s.t.Helper()
	if s.process == nil {
		return
	}
	if err := s.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = s.process.Kill() })
	defer kill.Stop()
	if err := <-s.ended; err != nil || s.t.Failed() {
		s.t.Logf("PostgreSQL ended with %v and said:\n%s", err, s.said)
	}
	s.process = nil
}

// find returns the folder of PostgreSQL's programs: that of postgres on PATH, else the newest
// that Debian has.
func find(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		const missing = "there is no PostgreSQL here: internal/repo/scripts/test-deps installs it"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // a name that is no number is old
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

// spawn starts a process from a thread that lives as long as it does, because the
// kernel sends the parent-death signal when the starting thread ends. The
// channel tells how the process ended.
func spawn(cmd *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}

// asUnprivilegedUser has the server run as a user that PostgreSQL accepts, and gives that user
// the folder.
func (s *Server) asUnprivilegedUser() {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		other, err = user.Lookup("nobody")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var ids [2]uint32
	for i, text := range []string{other.Uid, other.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			s.t.Fatal(err)
		}
		ids[i] = uint32(n)
	}
	if err := os.Chown(s.folder, int(ids[0]), int(ids[1])); err != nil {
		s.t.Fatal(err)
	}
	s.attributes.Credential = &syscall.Credential{Uid: ids[0], Gid: ids[1]}
}

// output keeps the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(o.text.String())
}
