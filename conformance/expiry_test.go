package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
)

// brief is a time that passes during a test.
const brief = 100 * time.Millisecond

// slack is the largest difference of clocks that count in milliseconds.
const slack = 5 * time.Millisecond

// wantBrief looks for something that was set to be there for a brief time, by a
// call that began and ended then, until it is gone, and checks that it goes
// neither early nor late.
func wantBrief(t *testing.T, began, ended time.Time, look func() error) {
	t.Helper()
	for {
		asked := time.Now()
		err := look()
		answered := time.Now()
		switch {
		case err == nil && asked.After(ended.Add(brief+slack)):
			t.Fatalf("what was set for %v is there after %v", brief, asked.Sub(ended))
		case err == nil:
			continue
		case answered.Before(began.Add(brief - slack)):
			t.Fatalf("what was set for %v is gone after %v", brief, answered.Sub(began))
		}
		wantError(t, "look at what is gone", err, millrace.ErrNotFound)
		return
	}
}

// shardKeys returns the base keys of a namespace's shards, as docs/WIRE.md has
// them. The kind is "hash" or "key".
func shardKeys(kind, namespace string) []string {
	list := make([]string, shards.Default)
	for shard := range list {
		list[shard] = fmt.Sprintf("mr:%s:{%s/%d}", kind, namespace, shard)
	}
	return list
}

// stored returns the keys of a namespace.
func stored(t *testing.T, on running, namespace string) []string {
	t.Helper()
	return keysOf(t, on.client(t), "{"+namespace)
}

// valuesStored returns how many values take memory, of a namespace of values.
func valuesStored(t *testing.T, on running, namespace string) int {
	t.Helper()
	client, values := on.client(t), 0
	for _, base := range shardKeys("key", namespace) {
		n, err := client.Do(t.Context(), client.B().Hlen().Key(base+":values").Build()).AsInt64()
		must(t, "HLEN", err)
		values += max(0, int(n)-1) // but for the placeholder
	}
	return values
}

// wantShards checks that each key of a namespace lies in the slot of a shard or
// of the namespace's record, and that every server is home to some shards.
func wantShards(t *testing.T, on running, kind, namespace string) {
	t.Helper()
	tags, homes := map[string]bool{namespace: false}, map[string]bool{}
	for _, base := range shardKeys(kind, namespace) {
		tags[tagOf(base)] = false
		homes[on.home(base)] = true
	}
	want(t, "servers that are home to a shard", len(homes), on.homes(), nil)
	for _, key := range stored(t, on, namespace) {
		if _, ok := tags[tagOf(key)]; !ok {
			t.Errorf("%q lies in the slot of no shard", key)
		}
		tags[tagOf(key)] = true
	}
	for tag, used := range tags {
		if !used {
			t.Errorf("no key lies in the slot of %q", tag)
		}
	}
}

// tagOf returns the part of a key with braces that decides its slot.
func tagOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// runUntil runs slices of a job until something is so.
func runUntil(t *testing.T, job millrace.Job, what string, so func() bool) {
	t.Helper()
	redistest.Eventually(t, what, func() bool {
		_, err := job.Slice(t.Context())
		if errors.Is(err, context.DeadlineExceeded) { // a busy server is late, and the next slice goes on
			return false
		}
		must(t, job.Name, err)
		return so()
	})
}

// spoil gives keys a Redis TTL, as a program might that does not know better.
func spoil(t *testing.T, client rueidis.Client, keys ...string) {
	t.Helper()
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = client.B().Expire().Key(key).Seconds(int64(long / time.Second)).Build()
	}
	for i, r := range client.DoMulti(t.Context(), commands...) {
		done, err := r.AsBool()
		want(t, "EXPIRE "+keys[i], done, true, err)
	}
}

// spoilt reports whether one of the keys has a Redis TTL or is gone.
func spoilt(t *testing.T, client rueidis.Client, keys ...string) bool {
	t.Helper()
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = client.B().Pttl().Key(key).Build()
	}
	for _, r := range client.DoMulti(t.Context(), commands...) {
		left, err := r.AsInt64()
		must(t, "PTTL", err)
		if left != -1 {
			return true
		}
	}
	return false
}
