package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// bench is a fleet of real servers, and its directory.
type bench struct {
	t   *testing.T
	f   *devfleet.Fleet
	dir *directory.Directory
}

// start starts a fleet whose members have some keys, which they save as slowly as a
// test has time to look on.
func start(t *testing.T, cfg devfleet.Config) *bench {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	f, err := devfleet.Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	b := &bench{t: t, f: f, dir: dir(t, f.DirectoryAddr())}
	for _, s := range f.Servers() {
		if s.Role == devfleet.Master {
			b.ask(s, "EVAL", "for i = 1, 200 do redis.call('SET', 'key:' .. i, string.rep('x', 100)) end", "0")
		}
	}
	return b
}

// single is a partition with a replica, each on a node of its own.
var single = devfleet.Config{Nodes: 2, Partitions: 1}

func dir(t *testing.T, addr string) *directory.Directory {
	t.Helper()
	d, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// keeper returns a keeper that says nothing.
func (b *bench) keeper(cfg Config) *Keeper {
	b.t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	return New(dir(b.t, b.f.DirectoryAddr()), cfg)
}

// ask returns a server's answer to a command as text.
func (b *bench) ask(s devfleet.Server, command ...string) string {
	b.t.Helper()
	text, err := ask(b.t, s.Addr, command...)
	if err != nil {
		b.t.Fatalf("%s: %v: %v", s, command, err)
	}
	return text
}

func ask(t *testing.T, addr string, command ...string) (string, error) {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true})
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := c.Do(deadline(t), c.B().Arbitrary(command...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return fmt.Sprint(reply), err
}

// info returns a field of a server's INFO.
func (b *bench) info(s devfleet.Server, field string) string {
	b.t.Helper()
	for line := range strings.Lines(b.ask(s, "INFO")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	b.t.Fatalf("%s has no %s", s, field)
	return ""
}

// forks returns how many children a server has had.
func (b *bench) forks(s devfleet.Server) int {
	b.t.Helper()
	n, err := strconv.Atoi(b.info(s, "total_forks"))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// slow has servers take so much longer for each key that they save.
func (b *bench) slow(each time.Duration, servers ...devfleet.Server) {
	b.t.Helper()
	for _, s := range servers {
		b.ask(s, "CONFIG", "SET", "rdb-key-save-delay", strconv.FormatInt(each.Microseconds(), 10))
	}
}

func (b *bench) saving(s devfleet.Server) bool {
	b.t.Helper()
	return b.info(s, "rdb_bgsave_in_progress") == "1"
}

// await waits until a server saves.
func (b *bench) await(s devfleet.Server) {
	b.t.Helper()
	redistest.Eventually(b.t, s.String()+" saves", func() bool { return b.saving(s) })
}

// now takes a snapshot of partition 0.
func now(ctx context.Context, k *Keeper) (directory.Snapshot, error) {
	for s, err := range k.Now(ctx, 0) {
		return s, err
	}
	return directory.Snapshot{}, errors.New("nothing was yielded")
}

// going is a snapshot of partition 0 that is being taken.
type going struct {
	done chan struct{}
	s    directory.Snapshot
	err  error
}

func (b *bench) begin(k *Keeper) *going {
	b.t.Helper()
	g := &going{done: make(chan struct{})}
	ctx := deadline(b.t)
	go func() {
		defer close(g.done)
		g.s, g.err = now(ctx, k)
	}()
	b.t.Cleanup(func() { <-g.done })
	return g
}

// wait returns the result of the call.
func (g *going) wait(t *testing.T) (directory.Snapshot, error) {
	t.Helper()
	select {
	case <-g.done:
	case <-deadline(t).Done():
		t.Fatal("the snapshot was not taken")
	}
	return g.s, g.err
}

// known returns the directory's entry of partition 0.
func (b *bench) known() directory.Snapshot {
	b.t.Helper()
	ages, err := Read(deadline(b.t), b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return ages.Partitions[0]
}

// restore starts a server on a file and returns it.
func restore(t *testing.T, path string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.Options{Args: []string{"--dir", filepath.Dir(path), "--dbfilename", filepath.Base(path)}})
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}
