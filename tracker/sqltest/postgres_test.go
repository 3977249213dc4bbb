package sqltest

import (
	"bytes"
	"errors"
	"io/fs"
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

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/tracker"
)

// openPostgreSQL runs a cluster of the test's own, which ends with it.
func openPostgreSQL(t *testing.T) database {
	t.Helper()
	folder := startPostgres(t, findPostgres(t))
	db := connect(t, "pgx", "host="+folder+" user=millrace dbname=postgres")
	redistest.Eventually(t, "PostgreSQL answers", func() bool { return db.PingContext(t.Context()) == nil })
	return database{db, tracker.PostgreSQL}
}

// findPostgres returns the folder of PostgreSQL's programs: that of postgres on
// PATH, else the newest that Debian has. Without one it skips the test, or fails it
// when CI is set.
func findPostgres(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		const missing = "there is no PostgreSQL here: scripts/test-deps installs it"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // what is no number is old
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

// startPostgres runs a cluster that listens on a socket, and returns the socket's
// folder.
func startPostgres(t *testing.T, programs string) string {
	t.Helper()
	// A test's own folder may have too long a name for a socket, and is closed to
	// other users.
	folder, err := os.MkdirTemp("", "millrace-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	attributes := asNobodySpecial(t, folder)
	data := filepath.Join(folder, "data")
	command := func(name string, args ...string) (*exec.Cmd, *output) {
		out := &output{}
		cmd := exec.Command(filepath.Join(programs, name), args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = folder, attributes, out, out
		return cmd, out
	}
	initdb, said := command("initdb", "--pgdata="+data, "--username=millrace", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err := initdb.Run(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, said)
	}
	server, said := command("postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20")
	ended, err := spawn(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// An interrupt is what PostgreSQL calls a fast shutdown.
		if err := server.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		kill := time.AfterFunc(20*time.Second, func() { _ = server.Process.Kill() })
		defer kill.Stop()
		if err := <-ended; err != nil || t.Failed() {
			t.Logf("PostgreSQL ended with %v and said:\n%s", err, said)
		}
	})
	redistest.Eventually(t, "PostgreSQL listens", func() bool {
		_, err := os.Stat(filepath.Join(folder, ".s.PGSQL.5432"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	})
	return folder
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

// asNobodySpecial returns what lets a process run as a user that PostgreSQL
// accepts: it refuses to be root. The folder is then that user's.
func asNobodySpecial(t *testing.T, folder string) *syscall.SysProcAttr {
	t.Helper()
	attributes := processAttributes()
	if os.Getuid() != 0 {
		return attributes
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		other, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids [2]uint32
	for i, text := range []string{other.Uid, other.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = uint32(n)
	}
	if err := os.Chown(folder, int(ids[0]), int(ids[1])); err != nil {
		t.Fatal(err)
	}
	attributes.Credential = &syscall.Credential{Uid: ids[0], Gid: ids[1]}
	return attributes
}

// output keeps what a process says.
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
