package beside

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestAgent begins while the directory is away, and ends at once when it has done its work.
func TestAgent(t *testing.T) {
	t.Parallel()
	servers, err := devfleet.Start(t.Context(), devfleet.Config{Binary: redistest.Binary(t), Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	if err := servers.Directory().Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	said := new(redistest.Log)
	end := Agent(dir, rueidis.ClientOption{}, agent.Config{Interval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(said, nil))})(t.Context())
	redistest.Eventually(t, "it says why it cannot run", func() bool { return said.Count("cannot run an agent yet") > 0 })
	if err := servers.Directory().Proc.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	leader := func(ctx context.Context) string {
		name, err := dir.Leader(ctx)
		if err != nil {
			return ""
		}
		return name
	}
	redistest.Eventually(t, "it leads", func() bool { return leader(t.Context()) != "" })
	end()
	redistest.Eventually(t, "after its end none leads", func() bool { return leader(t.Context()) == "" })
	if _, err := dir.Confirm(t.Context(), 0); err != nil {
		t.Errorf("the directory was closed: %v", err)
	}
}
