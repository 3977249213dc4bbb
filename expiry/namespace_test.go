package expiry

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestDeleteNamespaceOfHashes leaves nothing, whatever there was.
func TestDeleteNamespaceOfHashes(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := openOn(t, client, "n", Config{Shards: 3})
	other := openOn(t, client, "other", Config{Shards: 1})
	put(t, other, inHash, "a", "1", 0)
	for i := range 700 { // several calls for each shard
		put(t, h, strconv.Itoa(i), "a", "1", hashLong)
	}
	putMany(t, h, inHash, 3000, hashLong)
	put(t, h, "for good", "a", "1", 0)
	put(t, h, "over", "a", "1", hashLong)
	expire(t, h, "over")
	redistest.Eventually(t, "the namespace is registered", func() bool {
		return slices.Contains(listed(t, client), "n")
	})
	if err := h.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := client.Do(t.Context(), client.B().Keys().Pattern("mr:hash*:{n*").Build()).AsStrSlice()
	if err != nil || len(left) != 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	if names := listed(t, client); slices.Contains(names, "n") {
		t.Errorf("List = %q", names)
	}
	if got := value(t, other, inHash, "a"); got != "1" {
		t.Errorf("another namespace's field = %q", got)
	}
	if err := h.Delete(t.Context()); err != nil {
		t.Errorf("Delete of nothing = %v", err)
	}
	put(t, h, inHash, "a", "anew", 0)
	if got := value(t, h, inHash, "a"); got != "anew" || lenOf(t, h, inHash) != 1 {
		t.Errorf("the field of the new namespace = %q, of %d", got, lenOf(t, h, inHash))
	}
}

// endsAfter is a hook that ends a context after some calls, as a kill ends a process.
type endsAfter struct {
	calls int
	end   context.CancelFunc
}

func (e *endsAfter) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	if e.calls--; e.calls == 0 {
		e.end()
	}
	return ctx, nil
}

// TestDeleteNamespaceGoesOn: an interrupted deletion leaves a namespace, which is
// listed, and the next one deletes the rest.
func TestDeleteNamespaceGoesOn(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	for after := 1; ; after++ {
		h := openOn(t, client, "n", Config{Shards: 1})
		for i := range 250 {
			put(t, h, strconv.Itoa(i), "a", "1", hashLong)
		}
		ctx, cancel := context.WithCancel(t.Context())
		h.space.Run.Hooks = []millrace.Hook{&endsAfter{after, cancel}}
		err := h.Delete(ctx)
		cancel()
		if err == nil {
			if after < 6 {
				t.Errorf("it took %d calls, want one for the record, three for 100 hashes each, and one for the shard", after-1)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Delete that ends after %d calls = %v", after, err)
		}
		if names := listed(t, client); !slices.Contains(names, "n") {
			t.Errorf("after %d calls the namespaces are %q", after, names)
		}
		if err := openOn(t, client, "n", Config{}).Delete(t.Context()); err != nil {
			t.Fatalf("Delete after one that ended after %d calls = %v", after, err)
		}
		if n := integer(t, client, "EXISTS", kind.RecordKey("n")); n != 0 {
			t.Errorf("after %d calls the record stays", after)
		}
	}
	left, err := client.Do(t.Context(), client.B().Keys().Pattern("mr:hash*").Build()).AsStrSlice()
	if err != nil || len(left) != 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// TestReapBesideASilentNode: a node of a Cluster that does not answer keeps no other one from
// being reaped.
func TestReapBesideASilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	h := openOn(t, cluster.Client(t), "n", Config{})
	silent := cluster.MasterOf(kind.ShardKey("n", 0))
	hash := ""
	for i := 0; hash == "" || cluster.MasterOf(baseOf(t, h, hash)) == silent; i++ {
		hash = strconv.Itoa(i)
	}
	put(t, h, hash, "a", "1", hashLong)
	expire(t, h, hash)
	other := cluster.MasterOf(baseOf(t, h, hash)).Client(t, func(opt *rueidis.ClientOption) { opt.ForceSingleClient = true })
	key := valuesKey(baseOf(t, h, hash), hash)
	silent.Pause()
	defer silent.Resume()
	redistest.Eventually(t, "the field on the other node is reaped", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if progress, err := h.Jobs()[0].Slice(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a slice beside a silent node = %v, %v", progress, err)
		}
		return integer(t, other, "EXISTS", key) == 0
	})
}

// TestAnIdleSliceIsCheap: the slices of every process every few seconds cost little. With 200
// processes and 5 namespaces, slices of 10 s floors are 100 a second: they were 100 EVALSHA
// and 1,700 other commands a second. Now one slice a second looks into each namespace, with
// 2 EVALSHA; the others read one field of its record.
func TestAnIdleSliceIsCheap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	const processes, rounds = 200, 3
	var all []*Hashes
	for range processes {
		h := openOn(t, client, "n", Config{})
		h.space.Idle = shards.DefaultIdle
		all = append(all, h)
	}
	for i := range 100 { // in all shards
		put(t, all[0], strconv.Itoa(i), "a", "1", hashLong)
	}
	for _, h := range all { // the first slice of a process also reads the number of shards
		wantSlice(t, h.Jobs()[0], millrace.Idle)
	}
	begin, before := time.Now(), shardstest.Asked(server)
	for range rounds {
		for _, h := range all {
			wantSlice(t, h.Jobs()[0], millrace.Idle)
		}
	}
	after := shardstest.Asked(server)
	looks := 1 + int(time.Since(begin)/shards.DefaultIdle)
	if scripts := after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]; scripts > 2*looks {
		t.Errorf("%d slices ran %d scripts, want at most 2 for each of %d looks", rounds*processes, scripts, looks)
	}
	if heads := after["zrange"] - before["zrange"]; heads > looks*(shards.Default+1) {
		t.Errorf("%d slices asked %d shards what is due, want %d looks", rounds*processes, heads, looks)
	}
}

// TestIdleSlicesWakeInTime: slices that find nothing due rest until the first deadline, and
// for a second at most; a shard in which something is due is reaped by the next slice.
func TestIdleSlicesWakeInTime(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	h.space.Idle = shards.DefaultIdle
	put(t, h, "soon", "a", "1", 100*time.Millisecond)
	wantSlice(t, h.Jobs()[0], millrace.Idle)
	for begin := time.Now(); ; {
		progress, err := h.Jobs()[0].Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if progress == millrace.Worked {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal("what is due is not reaped")
		}
	}
	if values, _ := stored(t, h, "soon"); values != 0 {
		t.Error("what is due in one shard was not reaped")
	}
}

// TestPlaceholderIsNoHash: the placeholder of an index is never due, and is not reaped if
// another program makes it so.
func TestPlaceholderIsNoHash(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Shards: 1})
	put(t, h, inHash, "a", "1", hashLong)
	client, base := h.space.Run.Client, baseOf(t, h, inHash)
	must(t, client, "ZADD", base+":due", "1", "")
	if _, err := h.Jobs()[0].Slice(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := integer(t, client, "ZCARD", base+":due"); n != 2 {
		t.Errorf("the index has %d entries, want the hash and the placeholder", n)
	}
}

// TestEvictableServersAreRefused: a server that may evict any key is refused, unless the
// program accepts it; reading and removing work on either.
func TestEvictableServersAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "100mb", Policy: "allkeys-lru"})
	client := server.Client(t)
	_, err := Open(t.Context(), client, "n", Config{})
	wantHashError(t, "Open", err, millrace.ErrEvictable)
	must(t, client, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	h, lax := openOn(t, client, "n", Config{}), openOn(t, client, "n", Config{AllowEvictable: true})
	put(t, h, inHash, "a", "1", hashLong)
	must(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	redistest.Eventually(t, "Set is refused", func() bool {
		_, _ = h.Jobs()[1].Slice(t.Context())
		_, err := h.Set(t.Context(), inHash, "b", nil, SetConfig{})
		return errors.Is(err, millrace.ErrEvictable)
	})
	_, err = h.Incr(t.Context(), inHash, "n", 1)
	wantHashError(t, "Incr", err, millrace.ErrEvictable)
	put(t, lax, inHash, "c", "1", hashLong)
	if got := value(t, h, inHash, "a"); got != "1" {
		t.Errorf("a field = %q", got)
	}
	if n, err := h.Remove(t.Context(), inHash, "a"); n != 1 || err != nil {
		t.Errorf("Remove = %d, %v", n, err)
	}
}

// TestIdleSliceOnAFullServer: a slice that finds nothing due notes that on a full server too.
func TestIdleSliceOnAFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := openOn(t, client, "n", Config{})
	h.space.Idle = shards.DefaultIdle
	put(t, h, inHash, "a", "1", hashLong)
	must(t, client, "CONFIG", "SET", "maxmemory", "1")
	wantSlice(t, h.Jobs()[0], millrace.Idle)
	if n := integer(t, client, "HEXISTS", kind.RecordKey("n"), "idle"); n != 1 {
		t.Error("the record does not say that nothing is due")
	}
}

// TestRestCreatesNothing: a slice that notes that nothing is due does not bring a record back
// that was deleted meanwhile.
func TestRestCreatesNothing(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	record := kind.RecordKey(h.Name())
	if _, err := h.space.Run.Run(t.Context(), "rest", record, "1000"); err != nil {
		t.Fatal(err)
	}
	if n := integer(t, h.space.Run.Client, "EXISTS", record); n != 0 {
		t.Error("the record is back")
	}
}
