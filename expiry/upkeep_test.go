package expiry

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestHashJobs drains many hashes in slices, and checks the namespace's statistics
// meanwhile.
func TestHashJobs(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Shards: 2})
	const hashes, fields = 60, 10
	for i := range hashes {
		putMany(t, h, strconv.Itoa(i), fields, hashLong)
		expire(t, h, strconv.Itoa(i))
	}
	put(t, h, "alive", "a", "1", hashLong)
	put(t, h, "for good", "a", "1", 0)
	s := hashStats(t, h)
	if s.Shards != 2 || s.Hashes != hashes+1 || s.Overdue != hashes || s.OldestOverdue < time.Second {
		t.Errorf("Stats = %+v", s)
	}
	job, full := h.Jobs()[0], 0
	for progress := millrace.More; progress == millrace.More; {
		before := hashStats(t, h).Reaped
		var err error
		if progress, err = job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := hashStats(t, h).Reaped - before; got > 2*reapBudget {
			t.Errorf("a slice reaped %d, more than %d", got, 2*reapBudget)
		}
		full++
	}
	if full < 3 {
		t.Errorf("%d slices were enough, want several", full)
	}
	s = hashStats(t, h)
	if s.Hashes != 1 || s.Overdue != 0 || s.OldestOverdue != 0 || s.Reaped != hashes*fields {
		t.Errorf("Stats = %+v, want all reaped but for one hash", s)
	}
	if progress, err := job.Slice(t.Context()); err != nil || progress != millrace.Idle {
		t.Errorf("a slice with nothing left = %v, %v", progress, err)
	}
	if lenOf(t, h, "alive")+lenOf(t, h, "for good") != 2 {
		t.Error("a slice reaped too much")
	}
}

// TestRepairOfALargeHash goes through a hash with more fields than one visit does, and
// through those beside it.
func TestRepairOfALargeHash(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Shards: 1})
	const n = 3 * 100 * repairCalls
	putMany(t, h, inHash, n, hashLong)
	client, base := h.space.Run.Client, baseOf(t, h, inHash)
	for i := range 10 {
		must(t, client, "HDEL", valuesKey(base, inHash), "f"+strconv.Itoa(i*n/10))
		must(t, client, "ZREM", deadlinesKey(base, inHash), "f"+strconv.Itoa(i*n/10+1))
		put(t, h, fmt.Sprint("small", i), "a", "1", hashLong)
		must(t, client, "ZREM", deadlinesKey(base, fmt.Sprint("small", i)), "a")
	}
	visits, at := 0, position{}
	for {
		visits++
		var err error
		if _, at, err = repairHashes(t.Context(), h.space, base, 1, at); err != nil {
			t.Fatal(err)
		}
		if at == (position{}) {
			break
		}
	}
	if visits < 3 || lenOf(t, h, inHash) != n-10 || hashStats(t, h).Repaired != 30 {
		t.Errorf("Len = %d, %+v after %d visits, want 20 mended, and 10 beside it", lenOf(t, h, inHash), hashStats(t, h), visits)
	}
	if _, deadlines := stored(t, h, inHash); deadlines != n-10 {
		t.Errorf("%d deadlines, want %d", deadlines, n-10)
	}
}

// TestRepairLeavesOthersAlone visits keys that are no namespace's.
func TestRepairLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	for _, key := range []string{"mr:hashes:{", "mr:hashes:{}", "mr:hashes:{a}b", "mr:hashes:{a", "mr:hash:{a/0}", "mr:hash:{a/0}:due", "mr:hash:{a/0}:h:odd"} {
		must(t, client, "SET", key, "x", "EX", "1000")
	}
	job := Jobs(client)[0]
	for range 3 {
		if progress, err := job.Slice(t.Context()); err != nil || progress != millrace.Idle {
			t.Errorf("slice = %v, %v", progress, err)
		}
	}
	if n := integer(t, client, "DBSIZE"); n != 7 {
		t.Errorf("%d keys, want all 7", n)
	}
}

// enlisted counts the moments that were offered.
type enlisted struct{ n atomic.Int64 }

func (e *enlisted) Enlist(context.Context) { e.n.Add(1) }

// TestHashHitsEnlist: a hit is a moment in which a worker has time.
func TestHashHitsEnlist(t *testing.T) {
	t.Parallel()
	e := &enlisted{}
	h := open(t, Config{Enlister: e})
	put(t, h, inHash, "a", "1", 0)
	value(t, h, inHash, "none")
	if got := e.n.Load(); got != 0 {
		t.Errorf("enlisted %d times without a hit", got)
	}
	value(t, h, inHash, "a")
	if _, err := h.GetMany(t.Context(), inHash, "a", "none"); err != nil {
		t.Fatal(err)
	}
	if got := e.n.Load(); got != 2 {
		t.Errorf("enlisted %d times, want one for each call that found something", got)
	}
}

// TestShardsStay: a namespace keeps the number of shards that it began with.
func TestShardsStay(t *testing.T) {
	t.Parallel()
	client, name := redistest.Shared(t).Client(t), redistest.Name(t)
	first := openOn(t, client, name, Config{Shards: 3})
	for i := range 20 {
		put(t, first, strconv.Itoa(i), "a", "1", 0)
	}
	second := openOn(t, client, name, Config{Shards: 7})
	for i := range 20 {
		if got := value(t, second, strconv.Itoa(i), "a"); got != "1" {
			t.Errorf("value of hash %d = %q", i, got)
		}
	}
	if s := hashStats(t, second); s.Shards != 3 {
		t.Errorf("Shards = %d, want 3", s.Shards)
	}
	must(t, client, "HSET", kind.RecordKey(name), "version", "1")
	_, err := Open(t.Context(), client, name, Config{})
	wantHashError(t, "Open", err, millrace.ErrVersion)
}

// TestBrokenRecords: a record without its version or its number of shards is refused, and stays as it
// is.
func TestBrokenRecords(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, lost := range []string{"version", "shards"} {
		h := open(t, Config{Shards: 3})
		put(t, h, inHash, "a", "1", 0)
		record := kind.RecordKey(h.Name())
		must(t, client, "HDEL", record, lost)
		left := raw(t, client, "HLEN", record)
		_, err := Open(t.Context(), client, h.Name(), Config{})
		wantHashError(t, "Open without the "+lost, err, millrace.ErrBroken)
		h.space.Known.Store(0)
		_, err = h.Set(t.Context(), inHash, "a", []byte("2"), SetConfig{})
		wantHashError(t, "Set without the "+lost, err, millrace.ErrBroken)
		if now := raw(t, client, "HLEN", record); now != left {
			t.Errorf("the record has %s fields without the %s, and had %s", now, lost, left)
		}
	}
}
