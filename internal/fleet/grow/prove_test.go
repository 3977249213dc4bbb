package grow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestInitProvesTheBootFence by a restart: it takes servers that come back fenced, and refuses
// those that come back otherwise, or not at all, with the next step.
func TestInitProvesTheBootFence(t *testing.T) {
	t.Parallel()
	fence, unread := []string{"--replicaof", "127.0.0.1", "1"}, []string{"--replica-serve-stale-data", "no"}
	for _, tc := range []struct {
		name      string
		args      []string
		file      string // a configuration file, which CONFIG REWRITE may write
		abandoned bool   // it is not started again
		says      string // empty for none
	}{
		{"on the command line", append(fence, unread...), "", false, ""},
		{"on the command line, with a file", append(fence, unread...), "maxmemory 100mb\n", false, ""},
		{"in the file alone", nil, "replicaof 127.0.0.1 1\nreplica-serve-stale-data no\n", false, "without its boot fence"},
		{"none", unread, "", false, "without its boot fence"},
		{"a fence that lets it be read", fence, "", false, "without its boot fence"},
		{"a fence at a real address", append([]string{"--replicaof", "127.0.0.1", "2"}, unread...), "", false, "without its boot fence"},
		{"nobody starts it again", append(fence, unread...), "", true, "is not back"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dirs := redistest.Durable(t)
			tf := &testFleet{t: t, dirs: dirs}
			dir := tf.dial(dirs.Addr())
			binary := redistest.Binary(t)
			if tc.file != "" {
				binary = withFile(t, binary, tc.file)
			}
			proc, err := redisproc.Start(t.Context(), redisproc.Config{Binary: binary, TCP: true, Args: tc.args})
			must(t, err)
			t.Cleanup(func() { must(t, errors.Join(proc.Kill(), proc.Stop())) })
			if !tc.abandoned {
				go func() {
					<-proc.Done()
					_ = proc.Restart(context.Background())
				}()
			}
			cfg := onTrust
			cfg.RestartTimeout = 10 * time.Second
			if tc.abandoned {
				cfg.RestartTimeout = 300 * time.Millisecond
			}
			_, err = Init(t.Context(), dir, []Partition{{Master: directory.Member{Addr: proc.Addr()}}}, cfg)
			if tc.says == "" {
				must(t, err)
				return
			}
			if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Init = %v, want ErrUnfit that says %q", err, tc.says)
			}
			if _, err := dir.Confirm(t.Context(), 0); !errors.Is(err, directory.ErrNoFleet) {
				t.Errorf("the directory says %v, want no fleet", err)
			}
		})
	}
}

// withFile returns a program that runs the server with a configuration file, which
// stands in front of other arguments.
func withFile(t *testing.T, binary, text string) string {
	t.Helper()
	dir := t.TempDir()
	file, server := filepath.Join(dir, "redis.conf"), filepath.Join(dir, "server")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	redistest.WriteScript(t, server, "exec '"+binary+"' '"+file+"' \"$@\"")
	return server
}
