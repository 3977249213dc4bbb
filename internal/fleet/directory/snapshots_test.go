package directory

import (
	"strings"
	"testing"
)

func TestSnapshotsThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	for field, text := range map[string]string{"x:saved": "1 {}", "1:saved": "x {}", "1:archived": "1 x", "1:failed": "1"} {
		must(t, server.Client(t), "DEL", snapshotsKey)
		must(t, server.Client(t), "HSET", snapshotsKey, field, text)
		if _, _, err := d.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Snapshots with %s = %q: %v, want an error that names it", field, text, err)
		}
	}
}
