package devfleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// binaryEnv names the server that the starter runs.
const binaryEnv = "DEVFLEET_BINARY"

// quick are settings with which growing takes half a second.
var quick = directory.Settings{ViewTTL: 200 * time.Millisecond, ReplyTimeout: 200 * time.Millisecond, PlacementTTL: 200 * time.Millisecond}

// small is a fleet for tests that do not depend on its size.
func small(t *testing.T) Config {
	t.Helper()
	return Config{Binary: redistest.Binary(t), Nodes: 2, Partitions: 1, Settings: quick}
}

func start(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	f, err := Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return f
}

// watch runs an agent until the test ends.
func watch(t *testing.T, f *Fleet) {
	t.Helper()
	dir, done, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	end := beside.Agent(dir, rueidis.ClientOption{}, agent.Config{Interval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})(context.Background())
	t.Cleanup(func() { end(); done() })
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ask returns a server's reply as text, lists with spaces in between.
func ask(t *testing.T, s Server, command ...string) string {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	defer c.Close()
	reply, err := c.Do(deadline(t), c.B().Arbitrary(command...).Build()).ToAny()
	if err != nil {
		t.Fatalf("%s: %v: %v", s, command, err)
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// setting returns a server's setting.
func setting(t *testing.T, s Server, name string) string {
	t.Helper()
	return strings.TrimPrefix(ask(t, s, "CONFIG", "GET", name), name+" ")
}

func mapOf(t *testing.T, f *Fleet) *directory.Map {
	t.Helper()
	dir, done, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	m, err := dir.Confirm(deadline(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// processesIn returns the processes that work in dir or below it.
func processesIn(t *testing.T, dir string) []int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells where a process works")
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if pid, _ := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && pid != os.Getpid() && strings.HasPrefix(cwd+"/", dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("in %s: %v, %v, want nothing", dir, entries, err)
	}
	if pids := processesIn(t, dir); len(pids) != 0 {
		t.Errorf("processes in %s: %v, want none", dir, pids)
	}
}

// failing returns a server binary that does not start if its arguments contain a word.
func failing(t *testing.T, word string) string {
	t.Helper()
	return changed(t, word, "echo this one does not; exit 1")
}

// changed returns a server binary that runs a line of shell before it starts if its
// arguments contain a word.
func changed(t *testing.T, word, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redis-server")
	redistest.WriteScript(t, path, fmt.Sprintf("case \"$*\" in *%s*) %s;; esac\nexec %s \"$@\"", word, line, redistest.Binary(t)))
	return path
}

// keyspace returns a server's count of its keys, also of one that refuses reads.
func keyspace(t *testing.T, s Server) string {
	t.Helper()
	_, held, _ := strings.Cut(ask(t, s, "INFO", "keyspace"), "\n")
	return strings.TrimSpace(held)
}
