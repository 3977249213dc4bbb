package failover

import (
	"strings"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redistest"
)

func contains(text string, all ...string) bool {
	for _, s := range all {
		if !strings.Contains(text, s) {
			return false
		}
	}
	return true
}

// beats waits until n more beats are written into the master of a partition.
func (w *world) beats(id int, n int64) {
	w.t.Helper()
	d := direct(w.t, w.mapNow().Partitions[id].Master.Addr)
	count := func() int64 {
		text, _ := d.Do(w.t.Context(), d.B().Get().Key(members.BeatKey).Build()).ToString()
		return members.ParseBeat(text).Count
	}
	first := count()
	redistest.Eventually(w.t, "beats are written", func() bool { return count() >= first+n })
}
