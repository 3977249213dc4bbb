package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// mapOf returns a map of one partition.
func mapOf(t *testing.T, fleet string, epoch int64) *directory.Map {
	t.Helper()
	points, err := ring.New(1)
	if err != nil {
		t.Fatal(err)
	}
	return &directory.Map{
		Version: directory.Version, Fleet: fleet, Epoch: epoch, Points: points.Points(),
		Partitions: []directory.Partition{{Phase: directory.Open, Master: directory.Member{Addr: "10.0.0.1:7000"}}},
	}
}

// A map in the archive is replaced only by a newer one, and whole at any time; of each
// fleet there is one.
func TestArchivedMaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var writing sync.WaitGroup
	for first := range int64(4) {
		writing.Go(func() {
			for epoch := first + 1; epoch <= 100; epoch++ {
				if err := archiveMap(dir, mapOf(t, "f/1", epoch)); err != nil {
					t.Error(err)
				}
				if _, err := Maps(dir); err != nil {
					t.Errorf("while it is replaced, the archive has no map: %v", err)
				}
			}
		})
	}
	writing.Wait()
	if err := archiveMap(dir, mapOf(t, "f/1", 100)); err != nil { // the last one may have been an older one
		t.Fatal(err)
	}
	old := filepath.Join(dir, "f%2F1.map.X"+part)
	for _, file := range []string{old, filepath.Join(dir, "g.map"), filepath.Join(dir, "broken.map")} {
		if err := os.WriteFile(file, []byte("12 garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*abandoned)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*directory.Map{mapOf(t, "f/1", 101), mapOf(t, "f/1", 99), mapOf(t, "g", 13)} {
		if err := archiveMap(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	maps, err := Maps(dir)
	if want := map[string]*directory.Map{"f%2F1.map": mapOf(t, "f/1", 101), "g.map": mapOf(t, "g", 13)}; !cmp.Equal(want, maps) {
		t.Errorf("maps (-want +got):\n%s", cmp.Diff(want, maps))
	}
	if !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), "broken.map") {
		t.Errorf("error = %v, want one about broken.map", err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*"+part)); err != nil || len(files) > 0 {
		t.Errorf("drafts are left: %v, %v", files, err)
	}
}

// A keeper with an archive keeps the map there, and replaces it after each change.
func TestKeepersArchiveTheMap(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	archive := t.TempDir()
	b.run(b.keeper(Config{Archive: archive, Interval: time.Second}))
	for range 2 {
		m, err := b.dir.Confirm(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "the archive has the present map", func() bool {
			maps, err := Maps(archive)
			return err == nil && cmp.Equal(maps[m.Fleet+mapSuffix], m)
		})
		next := m.Clone()
		next.Epoch++
		if err := b.dir.Change(t.Context(), m.Epoch, next); err != nil {
			t.Fatal(err)
		}
	}
}
