package agent

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// start starts a fleet and opens it with a Config that agents must not take over.
func start(t *testing.T, cfg devfleet.Config) (*devfleet.Fleet, *fleet.Fleet) {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	servers, err := devfleet.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Stop(); err != nil {
			t.Error(err)
		}
	})
	f, err := fleet.Dial(t.Context(), servers.URL(), fleet.Config{
		ReadReplicas: true, WaitReplicas: 7, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return servers, f
}

// errDone is why agents of tests end.
var errDone = errors.New("done")

// run runs an agent until end is called, which returns the error of Run.
func run(t *testing.T, cfg Config) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	return func() error {
		cancel(errDone)
		return <-ended
	}
}

// TestRunWaitsForTheDirectory: the directory is away when the agent begins. The program's
// fleet, whose writes would wait for replicas that do not exist, stays open after the agent.
func TestRunWaitsForTheDirectory(t *testing.T) {
	t.Parallel()
	servers, f := start(t, devfleet.Config{Partitions: 1})
	dir := directory.Of(f.Client())
	if err := servers.Directory().Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	var said redistest.Log
	end := run(t, Config{Fleet: f, Interval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	redistest.Eventually(t, "the agent says that it waits", func() bool { return said.Count("waits for the fleet's directory") > 0 })
	if err := servers.Directory().Proc.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it leads", func() bool {
		leader, err := dir.Leader(t.Context())
		return err == nil && leader != ""
	})
	redistest.Eventually(t, "it knows the members' runs", func() bool {
		m, err := dir.Confirm(t.Context(), 0)
		return err == nil && m.Partitions[0].Master.Run != ""
	})
	if err := end(); !errors.Is(err, errDone) {
		t.Errorf("Run returns %v, want the cause", err)
	}
	if leader, err := dir.Leader(t.Context()); err != nil || leader != "" {
		t.Errorf("afterwards %q leads (%v), want that it has resigned", leader, err)
	}
	if _, err := f.Status(t.Context()); err != nil {
		t.Errorf("the program's fleet cannot be used any more: %v", err)
	}
}

// TestRunTakesSnapshots has an agent archive a member's snapshot.
func TestRunTakesSnapshots(t *testing.T) {
	t.Parallel()
	_, f := start(t, devfleet.Config{Partitions: 1})
	archive := t.TempDir()
	end := run(t, Config{Fleet: f, SnapshotInterval: time.Second, Archive: archive, Keep: 1, Logger: slog.New(slog.DiscardHandler)})
	redistest.Eventually(t, "a snapshot is archived", func() bool {
		ages, err := snapshot.Read(t.Context(), directory.Of(f.Client()))
		return err == nil && ages.Partitions[0].Archived.File != ""
	})
	if err := end(); !errors.Is(err, errDone) {
		t.Errorf("Run returns %v, want the cause", err)
	}
	files, err := filepath.Glob(filepath.Join(archive, "*"))
	if err != nil || !slices.ContainsFunc(files, func(name string) bool { return filepath.Ext(name) == ".rdb" }) {
		t.Errorf("the archive has %q (%v), want a snapshot", files, err)
	}
}

func TestRunRefusesABadConfig(t *testing.T) {
	t.Parallel()
	_, f := start(t, devfleet.Config{Partitions: 1, Replicas: devfleet.NoReplicas})
	for _, cfg := range []Config{
		{},
		{Fleet: f, Interval: -1},
		{Fleet: f, SnapshotInterval: -1},
		{Fleet: f, SnapshotInterval: 1, Archive: t.TempDir(), Keep: -1},
		{Fleet: f, Archive: t.TempDir()},
		{Fleet: f, Keep: 1},
		{Fleet: f, SnapshotInterval: 1, Keep: 1},
		{Fleet: f, SnapshotInterval: 1, Archive: filepath.Join(t.TempDir(), "nowhere")},
	} {
		if err := Run(t.Context(), cfg); !errors.Is(err, millrace.ErrBadArgument) || millrace.Hint(err) == "" {
			t.Errorf("Run with %+v: %v, want ErrBadArgument with a hint", cfg, err)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errDone)
	if err := Run(ended, Config{Fleet: f}); !errors.Is(err, errDone) {
		t.Errorf("Run with a context that has ended: %v, want its cause", err)
	}
}
