package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/etcdtest"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestWrongClock: a result of a process whose clock is ahead does not hide later ones.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	d := dial(t, cluster.URL("fleet"))
	for _, s := range []struct {
		addr string
		ago  time.Duration
	}{{"ahead:1", -24 * time.Hour}, {"right:1", 0}} {
		if err := d.Snapped(t.Context(), time.Now().Add(-s.ago), directory.Snapshot{Saved: directory.Saved{Addr: s.addr}}); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, err := d.Snapshots(t.Context()); err != nil || all[0].Saved.Addr != "right:1" {
		t.Errorf("Snapshots = %+v, %v, want the one of the process whose clock is right", all, err)
	}
}

// TestUnreadable: an error names the key that holds something else.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	d, client := dial(t, cluster.URL("fleet")), cluster.Members[0].Client(t)
	put := func(key, value string) {
		t.Helper()
		if _, err := client.Put(t.Context(), "millrace/fleet/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("snapshots/1", "x")
	if _, _, err := d.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), "snapshots/1") {
		t.Errorf("Snapshots = %v, want an error that names the key", err)
	}
	put("log/1", "x")
	if _, err := d.Events(t.Context()); err == nil {
		t.Error("Events of a broken log succeeded")
	}
	for _, broken := range []struct{ epoch, text string }{{"x", "{}"}, {"1 x", ""}, {"1 x", "{}"}, {"1 x", `{"version":99}`}} {
		put("epoch", broken.epoch)
		if broken.text != "" {
			put("map", broken.text)
		}
		for _, epoch := range []int64{0, 2} {
			if m, err := d.Confirm(t.Context(), epoch); err == nil || m != nil {
				t.Errorf("Confirm(%d) of a map %q = %+v", epoch, broken, m)
			}
		}
	}
}
