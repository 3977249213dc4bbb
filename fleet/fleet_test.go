package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// TestAFleetIsOneClient writes for many tags, finds them again with another
// client, and in the partition of each.
func TestAFleetIsOneClient(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 3, 0, calm)
	f, other := tf.open(Config{}), tf.open(Config{})
	c, ctx := f.Client(), t.Context()
	used := map[int]int{}
	masters := make([]rueidis.Client, len(tf.masters))
	for i, master := range tf.masters {
		masters[i] = master.Client(t)
	}
	for i := range 300 {
		key := fmt.Sprintf("{user:%d}:name", i)
		must(t, put(ctx, c, key, fmt.Sprint(i)))
		if got, err := get(ctx, other.Client(), key); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("GET %s = %q, %v, want %d", key, got, err, i)
		}
		l, err := other.Locate(ctx, Tag(key))
		must(t, err)
		if l.How != Owner {
			t.Errorf("Locate(%s) = %+v, want it at its owner", key, l)
		}
		used[l.Partition]++
		if got, err := get(ctx, masters[l.Partition], key); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("on partition %d, %s = %q, %v, want %d", l.Partition, key, got, err, i)
		}
	}
	for id := range 3 {
		if used[id] < 60 {
			t.Errorf("partition %d has %d of 300 tags, want about 100: %v", id, used[id], used)
		}
	}
	status, err := f.Status(ctx)
	must(t, err)
	total := int64(0)
	for _, p := range status.Partitions {
		total += p.Tags
	}
	if total != 300 || status.State != Healthy {
		t.Errorf("Status = %+v, want 300 tags and healthy", status)
	}
}

// TestAnOutageDoesNotFloodTheDirectory: while a partition is away each call wants to
// know whether it has another master by now.
func TestAnOutageDoesNotFloodTheDirectory(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, calm)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	tf.masters[0].Kill()
	asked := func() (n int) {
		fmt.Sscanf(tf.dirs.Info("commandstats")["cmdstat_hget"], "calls=%d", &n)
		return n
	}
	before, began, failed := asked(), time.Now(), 0
	for time.Since(began) < time.Second {
		if set(t.Context(), f.Client(), "{a}", "x") == nil {
			t.Fatal("a write to a dead master succeeded")
		}
		failed++
	}
	most := 2*maxAsksPerTTL*int(time.Since(began))/int(calm.ViewTTL) + 2 // jittered
	if n := asked() - before; n > most || failed < 2*most {
		t.Errorf("the directory was asked %d times for %d calls that failed, want at most %d", n, failed, most)
	}
}
