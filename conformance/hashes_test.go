package conformance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
)

var hashesBehaviours = []behaviour{
	{"a field is there until its time and gone after it", hashesLife},
	{"deadlines come, move and go", hashesDeadlines},
	{"conditions are met or nothing changes", hashesConditions},
	{"large hashes come whole or in pages", hashesLarge},
	{"all of a shard is in one slot, and shards are everywhere", hashesShards},
	{"list and names go round all masters", hashesList},
	{"expired fields are reaped on all masters", hashesReap},
	{"what others spoilt is repaired on all masters", hashesRepair},
}

func openHashes(t *testing.T, client rueidis.Client, namespace string) *expiry.Hashes {
	t.Helper()
	h, err := expiry.Open(t.Context(), client, namespace, expiry.Config{})
	must(t, "expiry.Open", err)
	return h
}

func newHashes(t *testing.T, on running) *expiry.Hashes {
	t.Helper()
	return openHashes(t, on.client(t), redistest.Name(t))
}

func setField(t *testing.T, h *expiry.Hashes, hash, field, value string, cfg expiry.SetConfig) {
	t.Helper()
	_, err := h.Set(t.Context(), hash, field, []byte(value), cfg)
	must(t, "Set", err)
}

// wantFields checks the fields of a hash by every call that reads it: fields given as
// "a=1 b=2".
func wantFields(t *testing.T, h *expiry.Hashes, hash, text string) {
	t.Helper()
	fields := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		field, value, _ := strings.Cut(pair, "=")
		fields[field] = value
	}
	all, err := h.GetAll(t.Context(), hash)
	must(t, "GetAll", err)
	got := map[string]string{}
	for field, value := range all {
		got[field] = string(value)
	}
	want(t, "GetAll", got, fields, nil)
	scanned := map[string]string{}
	for f, err := range h.Scan(t.Context(), hash) {
		must(t, "Scan", err)
		scanned[f.Name] = string(f.Value)
	}
	want(t, "Scan", scanned, fields, nil)
	n, err := h.Len(t.Context(), hash)
	want(t, "Len", n, len(fields), err)
}

func hashesLife(t *testing.T, on running) {
	namespace := redistest.Name(t)
	one, two := openHashes(t, on.client(t), namespace), openHashes(t, on.client(t), namespace)
	wantFields(t, two, "h", "")
	began := time.Now()
	setField(t, one, "h", "brief", "1", expiry.SetConfig{TTL: brief})
	set := time.Now()
	setField(t, one, "h", "long", "2", expiry.SetConfig{TTL: long})
	setField(t, one, "h", "lasting", "3", expiry.SetConfig{})
	wantBrief(t, began, set, func() error {
		value, ttl, err := two.Get(t.Context(), "h", "brief")
		if err == nil && (string(value) != "1" || ttl <= 0 || ttl > brief) {
			t.Errorf("Get = %q for %v, want 1 for at most %v", value, ttl, brief)
		}
		return err
	})
	wantFields(t, two, "h", "long=2 lasting=3")
	values, err := two.GetMany(t.Context(), "h", "brief", "long", "lasting")
	must(t, "GetMany", err)
	if l := values["long"]; len(values) != 2 || string(l.Value) != "2" || l.TTL <= 0 || values["lasting"].TTL != expiry.NoTTL {
		t.Errorf("GetMany = %v, want what is there", values)
	}
	n, err := two.Remove(t.Context(), "h", "brief", "long")
	want(t, "Delete", n, 1, err)
	there, err := one.RemoveHash(t.Context(), "h")
	want(t, "RemoveHash", there, true, err)
	wantFields(t, one, "h", "")
}

func hashesDeadlines(t *testing.T, on running) {
	h := newHashes(t, on)
	for _, field := range []string{"a", "b", "c"} {
		setField(t, h, "h", field, "1", expiry.SetConfig{})
	}
	outcomes, err := h.Expire(t.Context(), "h", long, expiry.ExpireConfig{}, "a", "b", "none")
	want(t, "Expire", outcomes, []expiry.Outcome{expiry.Applied, expiry.Applied, expiry.HasNoField}, err)
	outcomes, err = h.Expire(t.Context(), "h", 2*long, expiry.ExpireConfig{IfLonger: true}, "a", "c")
	want(t, "Expire if longer", outcomes, []expiry.Outcome{expiry.Applied, expiry.NotMet}, err)
	outcomes, err = h.Expire(t.Context(), "h", expiry.NoTTL, expiry.ExpireConfig{}, "b", "c")
	want(t, "Persist", outcomes, []expiry.Outcome{expiry.Applied, expiry.HasNoTTL}, err)
	outcomes, err = h.Expire(t.Context(), "h", 0, expiry.ExpireConfig{Deadline: time.Now().Add(-long)}, "c")
	want(t, "Expire at a time", outcomes, []expiry.Outcome{expiry.Removed}, err)
	left, err := h.GetMany(t.Context(), "h", "a", "b", "c")
	must(t, "GetMany", err)
	if a := left["a"].TTL; a <= long || a > 2*long || left["b"].TTL != expiry.NoTTL || len(left) != 2 {
		t.Errorf("GetMany = %v, want two minutes, none, no field", left)
	}
}

func hashesConditions(t *testing.T, on running) {
	h := newHashes(t, on)
	two := map[string][]byte{"a": []byte("1"), "b": []byte("1")}
	r, err := h.SetMany(t.Context(), "h", two, expiry.SetConfig{IfExist: true})
	want(t, "SetMany if they exist", r, false, err)
	r, err = h.SetMany(t.Context(), "h", two, expiry.SetConfig{IfNone: true, TTL: long})
	want(t, "SetMany if there is none", r, true, err)
	r, err = h.Set(t.Context(), "h", "a", []byte("2"), expiry.SetConfig{IfNone: true})
	want(t, "Set if there is none", r, false, err)
	sum, err := h.Incr(t.Context(), "h", "a", 41)
	want(t, "Incr", sum, int64(42), err)
	wantFields(t, h, "h", "a=42 b=1")
	if _, ttl, err := h.Get(t.Context(), "h", "a"); err != nil || ttl <= 0 {
		t.Errorf("TTL after Incr = %v, %v, want it kept", ttl, err)
	}
}

func hashesLarge(t *testing.T, on running) {
	const size = 2500
	h := newHashes(t, on)
	fields := map[string][]byte{}
	for i := range size {
		fields[fmt.Sprint("field", i)] = []byte{'x'}
		if len(fields) == 1000 || i == size-1 {
			_, err := h.SetMany(t.Context(), "h", fields, expiry.SetConfig{TTL: long})
			must(t, "SetMany", err)
			fields = map[string][]byte{}
		}
	}
	all, err := h.GetAll(t.Context(), "h")
	want(t, "fields of GetAll", len(all), size, err)
	scanned := map[string]bool{}
	for f, err := range h.Scan(t.Context(), "h") {
		must(t, "Scan", err)
		scanned[f.Name] = true
	}
	want(t, "fields of Scan", len(scanned), size, nil)
}

// manyHashes makes hashes enough for every shard to have some, with a field of a
// minute and one that may expire sooner, and returns their names, sorted.
func manyHashes(t *testing.T, h *expiry.Hashes, ttl time.Duration) []string {
	t.Helper()
	names := make([]string, 4*shards.Default)
	for i := range names {
		names[i] = fmt.Sprintf("hash%02d", i)
		setField(t, h, names[i], "brief", "1", expiry.SetConfig{TTL: ttl})
		setField(t, h, names[i], "long", "1", expiry.SetConfig{TTL: long})
	}
	return names
}

func hashesShards(t *testing.T, on running) {
	namespace := redistest.Name(t)
	manyHashes(t, openHashes(t, on.client(t), namespace), long)
	wantShards(t, on, "hash", namespace)
}

func hashesList(t *testing.T, on running) {
	client := on.client(t)
	namespaces := spread(t, on, 1)
	for _, namespace := range namespaces {
		h := openHashes(t, client, namespace)
		for _, hash := range []string{"a", "b", "c"} {
			setField(t, h, hash, "field", "1", expiry.SetConfig{TTL: long})
		}
		var names []string
		for name, err := range h.Names(t.Context()) {
			must(t, "Names", err)
			names = append(names, name)
		}
		slices.Sort(names)
		want(t, "Names", slices.Compact(names), []string{"a", "b", "c"}, nil)
	}
	var list []string
	for name, err := range expiry.List(t.Context(), client) {
		must(t, "List", err)
		list = append(list, name)
	}
	for _, namespace := range namespaces {
		if !slices.Contains(list, namespace) {
			t.Errorf("List does not find %q", namespace)
		}
	}
}

// hashesReap looks at Stats, which count stored fields, not at fields, which are
// hidden anyway.
func hashesReap(t *testing.T, on running) {
	namespace := redistest.Name(t)
	one, two := openHashes(t, on.client(t), namespace), openHashes(t, on.client(t), namespace)
	names := manyHashes(t, one, brief)
	runUntil(t, two.Jobs()[0], "all that expired is removed", func() bool {
		s, err := one.Stats(t.Context())
		must(t, "Stats", err)
		return s.Reaped == int64(len(names))
	})
	s, err := one.Stats(t.Context())
	want(t, "hashes", []int{s.Hashes, s.Overdue, s.Shards}, []int{len(names), 0, shards.Default}, err)
	for _, name := range names[:5] {
		wantFields(t, one, name, "long=1")
	}
}

// hashesRepair has another program give every key a Redis TTL and spoil every index.
func hashesRepair(t *testing.T, on running) {
	client, namespace := on.client(t), redistest.Name(t)
	h := openHashes(t, client, namespace)
	names := manyHashes(t, h, long)
	for _, base := range shardKeys("hash", namespace) {
		due, err := client.Do(t.Context(), client.B().Zrange().Key(base+":due").Min("0").Max("-1").Build()).AsStrSlice()
		must(t, "ZRANGE", err)
		for _, name := range due {
			must(t, "ZADD", client.Do(t.Context(), client.B().Zadd().Key(base+":due").ScoreMember().ScoreMember(math.Inf(1), name).Build()).Error())
		}
	}
	keys := stored(t, on, namespace)
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, ":lanes:") })
	spoil(t, client, keys...)
	runUntil(t, expiry.Jobs(client)[0], "no key has a Redis TTL and every hash is in its index", func() bool {
		s, err := h.Stats(t.Context())
		must(t, "Stats", err)
		return s.Hashes == len(names) && !spoilt(t, client, keys...)
	})
	for _, name := range names {
		n, err := h.Len(t.Context(), name)
		want(t, "Len", n, 2, err)
	}
}
