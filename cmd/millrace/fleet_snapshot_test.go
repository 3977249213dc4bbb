package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/overview"
)

// TestFleetSnapshot takes one when it is asked to, and says how old it is.
func TestFleetSnapshot(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := threeMembers(t, s)
	s.want("PARTITION  AGE   TOOK  ON  ARCHIVED  FILE\n0          NONE                      \n", "fleet", "snapshot")

	archive := t.TempDir()
	got := s.run("fleet", "snapshot", "0", "--now", "--archive", archive)
	files, err := filepath.Glob(filepath.Join(archive, "*.rdb"))
	if err != nil || len(files) != 1 || got.code != 0 || !strings.Contains(got.stdout, filepath.Base(files[0])) {
		t.Errorf("snapshot --now = %+v, and the archive has %v (%v), want one file", got, files, err)
	}
	if !strings.Contains(got.stderr, `msg=saved partition=0`) {
		t.Errorf("snapshot --now tells %q, want what is done", got.stderr)
	}
	before := answer[overview.Snapshots](s, "fleet", "snapshot").Snapshots
	if len(before) != 1 || before[0].Saved == nil || before[0].Archived == nil || before[0].Failed != nil {
		t.Fatalf("snapshot = %+v, want one that is saved and archived", before)
	}

	// A snapshot that fails leaves the earlier ones, and gives the reason.
	for _, server := range servers {
		server.Kill()
	}
	got = s.run("fleet", "snapshot", "--now")
	if got.code != 1 || !strings.Contains(got.stdout, filepath.Base(files[0])) || !strings.Contains(got.stdout, "Saving partition 0 failed") ||
		!strings.Contains(got.stderr, "millrace: 1 partition not saved: the master of partition 0") {
		t.Errorf("snapshot --now without a member = %+v", got)
	}
}

func TestFleetSnapshotRefuses(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	threeMembers(t, s)
	for _, args := range [][]string{
		{"--archive", os.TempDir()},
		{"--now", "--keep", "2"},
		{"--now", "--archive", filepath.Join(t.TempDir(), "none")},
	} {
		s.refused(2, "bad_usage", append([]string{"fleet", "snapshot"}, args...)...)
	}
	s.refused(1, "not_found", "fleet", "snapshot", "1")
}
