package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/pinned"
)

var keysBehaviours = []behaviour{
	{"a value is there until its time and gone after it", keysLife},
	{"conditions are met or nothing changes", keysConditions},
	{"deadlines move and values are deleted", keysDeadlines},
	{"all of a shard is in one slot, and shards are everywhere", keysShards},
	{"overdue values are reaped on all masters", keysReap},
	{"what others spoilt is repaired on all masters", keysRepair},
	{"one server that evicts is enough to be refused", keysPolicy},
}

// countOf returns how many values there are.
func countOf(t *testing.T, k *pinned.Keys) (int, error) {
	t.Helper()
	s, err := k.Stats(t.Context())
	return s.Keys, err
}

func openKeys(t *testing.T, client rueidis.Client, namespace string) *pinned.Keys {
	t.Helper()
	k, err := pinned.Open(t.Context(), client, namespace, pinned.Config{})
	must(t, "pinned.Open", err)
	return k
}

func newKeys(t *testing.T, on running) *pinned.Keys {
	t.Helper()
	return openKeys(t, on.client(t), redistest.Name(t))
}

func wantSet(t *testing.T, k *pinned.Keys, key, value string, ttl time.Duration, cfg pinned.SetConfig, stored bool) {
	t.Helper()
	got, err := k.Set(t.Context(), key, []byte(value), ttl, cfg)
	want(t, "Set "+key, got, stored, err)
}

// wantValues checks the values of those keys that exist, given as "a=1 b=2".
func wantValues(t *testing.T, k *pinned.Keys, keys []string, text string) {
	t.Helper()
	values := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		values[key] = value
	}
	found, err := k.GetMany(t.Context(), keys...)
	must(t, "GetMany", err)
	got := map[string]string{}
	for key, value := range found {
		got[key] = string(value)
	}
	want(t, "GetMany", got, values, nil)
	n, err := countOf(t, k)
	want(t, "Len", n, len(values), err)
}

func keysLife(t *testing.T, on running) {
	namespace := redistest.Name(t)
	one, two := openKeys(t, on.client(t), namespace), openKeys(t, on.client(t), namespace)
	keys := []string{"brief", "long"}
	wantValues(t, two, keys, "")
	wantSet(t, one, "long", "2", long, pinned.SetConfig{}, true)
	began := time.Now()
	wantSet(t, one, "brief", "1", brief, pinned.SetConfig{}, true)
	wantBrief(t, began, time.Now(), func() error {
		value, ttl, err := two.Get(t.Context(), "brief")
		if err == nil && (string(value) != "1" || ttl <= 0 || ttl > brief) {
			t.Errorf("Get = %q for %v, want 1 for at most %v", value, ttl, brief)
		}
		return err
	})
	wantValues(t, two, keys, "long=2")
}

func keysConditions(t *testing.T, on running) {
	k := newKeys(t, on)
	wantSet(t, k, "a", "1", long, pinned.SetConfig{IfExist: true}, false)
	wantSet(t, k, "a", "2", long, pinned.SetConfig{IfNone: true}, true)
	wantSet(t, k, "a", "3", long, pinned.SetConfig{IfNone: true}, false)
	wantSet(t, k, "a", "4", long, pinned.SetConfig{IfExist: true}, true)
	wantValues(t, k, []string{"a"}, "a=4")
}

func keysDeadlines(t *testing.T, on running) {
	k := newKeys(t, on)
	names := members(50)
	for _, name := range names {
		wantSet(t, k, name, "1", long, pinned.SetConfig{}, true)
	}
	moved, err := k.Expire(t.Context(), names[0], 3*long)
	want(t, "Expire", moved, true, err)
	_, ttl, err := k.Get(t.Context(), names[0])
	if err != nil || ttl <= 2*long || ttl > 3*long {
		t.Errorf("TTL = %v, %v, want three minutes", ttl, err)
	}
	n, err := k.Remove(t.Context(), names[1:]...)
	want(t, "Delete", n, len(names)-1, err)
	wantValues(t, k, names, names[0]+"=1")
	moved, err = k.Expire(t.Context(), names[1], long)
	want(t, "Expire of nothing", moved, false, err)
}

// manyKeys stores values enough for every shard to have some, and returns their
// keys.
func manyKeys(t *testing.T, k *pinned.Keys, ttl time.Duration) []string {
	t.Helper()
	keys := make([]string, 4*shards.Default)
	for i := range keys {
		keys[i] = fmt.Sprintf("key%02d", i)
		wantSet(t, k, keys[i], "1", ttl, pinned.SetConfig{}, true)
	}
	return keys
}

func keysShards(t *testing.T, on running) {
	namespace := redistest.Name(t)
	manyKeys(t, openKeys(t, on.client(t), namespace), long)
	wantShards(t, on, "key", namespace)
}

func keysReap(t *testing.T, on running) {
	namespace := redistest.Name(t)
	one, two := openKeys(t, on.client(t), namespace), openKeys(t, on.client(t), namespace)
	keys := manyKeys(t, one, brief)
	runUntil(t, two.Jobs()[0], "all that is overdue is removed", func() bool {
		return valuesStored(t, on, namespace) == 0
	})
	s, err := one.Stats(t.Context())
	want(t, "counters", []int64{s.Set, s.Reaped}, []int64{int64(len(keys)), int64(len(keys))}, err)
}

// keysRepair has another program give every value a Redis TTL and remove every
// index.
func keysRepair(t *testing.T, on running) {
	client, namespace := on.client(t), redistest.Name(t)
	k := openKeys(t, client, namespace)
	names := manyKeys(t, k, long)
	for _, base := range shardKeys("key", namespace) {
		must(t, "DEL", client.Do(t.Context(), client.B().Del().Key(base+":due").Build()).Error())
	}
	keys := stored(t, on, namespace)
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasSuffix(key, ":values") })
	spoil(t, client, keys...)
	runUntil(t, pinned.Jobs(client)[0], "no value has a Redis TTL and each is in its index", func() bool {
		n, err := countOf(t, k)
		must(t, "Len", err)
		return n == len(names) && !spoilt(t, client, keys...)
	})
}

// keysPolicy lets one of the servers evict whatever it likes, for a while.
func keysPolicy(t *testing.T, on running) {
	client := on.client(t)
	k := newKeys(t, on)
	wantSet(t, k, "a", "1", long, pinned.SetConfig{}, true)
	for _, node := range client.Nodes() {
		if text, err := node.Do(t.Context(), node.B().Info().Section("replication").Build()).ToString(); err != nil || !strings.Contains(text, "role:master") {
			must(t, "INFO", err)
			continue
		}
		configure := func(memory, policy string) error {
			for name, value := range map[string]string{"maxmemory": memory, "maxmemory-policy": policy} {
				if err := node.Do(t.Context(), node.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error(); err != nil {
					return err
				}
			}
			return nil
		}
		must(t, "CONFIG SET", configure("1gb", "allkeys-lru"))
		defer func() { must(t, "CONFIG SET", configure("0", "noeviction")) }()
		break
	}
	_, err := pinned.Open(t.Context(), client, redistest.Name(t), pinned.Config{})
	wantError(t, "Open", err, millrace.ErrEvictable)
	job := k.Jobs()[1]
	redistest.Eventually(t, "the job sees that the policy has changed", func() bool {
		progress, err := job.Slice(t.Context())
		must(t, "slice", err)
		return progress == millrace.Worked
	})
	_, err = k.Set(t.Context(), "a", []byte("2"), long, pinned.SetConfig{})
	wantError(t, "Set", err, millrace.ErrEvictable)
	wantValues(t, k, []string{"a"}, "a=1")
}
