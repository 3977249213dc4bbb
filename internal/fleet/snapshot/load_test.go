package snapshot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// history is the replication id of files in tests.
const history = "0123456789abcdef0123456789abcdef01234567"

// archived returns a snapshot of a partition, with the fleet of it, and the beat that it has.
func archived(t *testing.T) (path string, fleet string, beat members.Beat) {
	t.Helper()
	b := start(t, single)
	m, err := b.dir.Load(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	beat = members.Beat{Epoch: 3, Count: 77}
	b.ask(b.f.Servers()[0], "SET", members.BeatKey, beat.String())
	dir := t.TempDir()
	s, err := now(deadline(t), b.keeper(Config{Archive: dir}))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, s.Archived.File), m.Fleet, beat
}

func fencedServer(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.Options{TCP: true, Args: append([]string{
		"--replicaof", members.FenceHost, members.FencePort, "--replica-serve-stale-data", "no",
	}, args...)})
}

// TestLoad has a member load an archived file, after a process that is no member has tried to get it.
func TestLoad(t *testing.T) {
	t.Parallel()
	path, fleet, beat := archived(t)
	f, err := Examine(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Fleet != fleet || f.Partition != 0 || f.Beat != beat || f.Bytes == 0 || time.Since(f.Saved) > time.Minute || time.Since(f.Saved) < -time.Second {
		t.Errorf("Examine = %+v, want partition 0 of %s with beat %v, saved now", f, fleet, beat)
	}
	s := fencedServer(t)
	load := Load{Addr: s.Addr(), Path: path, History: history, Logger: slog.New(slog.DiscardHandler)}
	if err := load.Run(deadline(t)); err != nil {
		t.Fatal(err)
	}
	pool := members.New(rueidis.ClientOption{}, time.Second)
	defer pool.Close()
	r, err := members.Ask(deadline(t), pool, s.Addr(), members.FenceAndExamine)
	if err != nil || r.History != history || r.Identity != members.Identity(fleet, 0) || r.Beat != beat || r.Master {
		t.Errorf("the member reports %+v, %v, want the history and the data of the file", r, err)
	}
	if got, err := ask(t, s.Addr(), "REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(got, err)
	}
	if got, err := ask(t, s.Addr(), "GET", "key:7"); err != nil || len(got) != 100 {
		t.Errorf("a key of the file is %q, %v", got, err)
	}
}

// TestLoadIsForTheMember: any other client gets nothing, and neither does a member that speaks TLS.
func TestLoadIsForTheMember(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, tc := range []struct{ says, gets, err string }{
		{"PING\r\n*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n\r\nPSYNC ? -1\r\nGET k\r\n", "+PONG\r\n-WRONGPASS another process follows\r\n-NOAUTH\r\n-ERR unknown command\r\n", "ended the connection"},
		{"*1000\r\n", "", `it sent "*1000"`},
		{"\x16\x03\x01\x02\x00\x01", "", "it replicates with TLS"},
	} {
		conn, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, tc.says); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		sent, err := Load{Path: "/no/file", History: history}.serve(deadline(t), nil, listener, "secret")
		if sent || err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("serve of %q = %v, %v, want %q", tc.says, sent, err, tc.err)
		}
		if got, err := io.ReadAll(conn); string(got) != tc.gets && err == nil {
			t.Errorf("%q gets %q, want %q", tc.says, got, tc.gets)
		}
		conn.Close()
	}
}

// TestLoadSurvives an agent that fences the member, and a restart of it.
func TestLoadSurvives(t *testing.T) {
	t.Parallel()
	path, _, _ := archived(t)
	for name, disturb := range map[string]func(t *testing.T, s *redistest.Server){
		"a fence": func(t *testing.T, s *redistest.Server) {
			// A server refuses the command while it loads.
			redistest.Eventually(t, "the member is fenced", func() bool {
				_, err := ask(t, s.Addr(), "REPLICAOF", members.FenceHost, members.FencePort)
				return err == nil
			})
		},
		"a restart": func(_ *testing.T, s *redistest.Server) {
			s.Kill()
			s.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fencedServer(t, "--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
			done := make(chan error, 1)
			go func() {
				done <- Load{Addr: s.Addr(), Path: path, History: history, Logger: slog.New(slog.DiscardHandler)}.Run(deadline(t))
			}()
			redistest.Eventually(t, "the member loads", func() bool {
				got, err := ask(t, s.Addr(), "INFO", "persistence")
				return err == nil && strings.Contains(got, "loading:1")
			})
			disturb(t, s)
			redistest.Eventually(t, "it is faster now", func() bool {
				_, err := ask(t, s.Addr(), "CONFIG", "SET", "key-load-delay", "0")
				return err == nil
			})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLoadFails: the file is none, the member is away or does not come, or the caller has enough.
func TestLoadFails(t *testing.T) {
	t.Parallel()
	path, _, _ := archived(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) string {
		path := filepath.Join(t.TempDir(), "x.rdb")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong := append([]byte{}, text...)
	wrong[len(wrong)/2]++
	folder := t.TempDir()
	s := fencedServer(t, "--dir", folder)
	for _, command := range [][]string{{"REPLICAOF", "NO", "ONE"}, {"SAVE"}} {
		if _, err := ask(t, s.Addr(), command...); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{
		"no file":                      "/no/file",
		"half of a file":               write(text[:len(text)/2]),
		"a wrong bit":                  write(wrong),
		"a server that is in no fleet": filepath.Join(folder, "dump.rdb"),
	} {
		if f, err := Examine(t.Context(), path); !errors.Is(err, ErrFile) {
			t.Errorf("%s: Examine = %+v, %v, want ErrFile", name, f, err)
		}
	}
	load := Load{Addr: s.Addr(), Path: "/no/file", History: history, Logger: slog.New(slog.DiscardHandler)}
	load.Path = "/no/file"
	wantError(t, "Load of no file", load.Run(deadline(t)), ErrNotLoaded)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	wantError(t, "Load with a context that has ended", load.Run(ended), io.ErrClosedPipe)
	s.Kill()
	wantError(t, "Load into a member that is away", load.Run(deadline(t)), ErrNotLoaded)
}
