package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

func openOn(t *testing.T, client rueidis.Client, name string, cfg Config) *Queue {
	t.Helper()
	q, err := New(client, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// open returns a queue of the test's own on the shared server.
func open(t *testing.T, cfg Config) *Queue {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

// want fails the test on an error, or unless got equals want.
func want(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error = %v, want %v", err, want)
	}
}

// write writes a message for each word, "tenant:body", and returns their ids.
func write(t *testing.T, q *Queue, words string) []string {
	t.Helper()
	var drafts []Draft
	for word := range strings.FieldsSeq(words) {
		tenant, body, _ := strings.Cut(word, ":")
		drafts = append(drafts, Draft{Tenant: tenant, Body: []byte(body)})
	}
	written, err := q.WriteBatch(t.Context(), drafts...)
	if err != nil {
		t.Fatalf("write %q: %v", words, err)
	}
	ids := make([]string, len(written))
	for i, w := range written {
		ids[i] = w.ID
	}
	return ids
}

// readerOf is a reader that always reports the same.
func readerOf(r reader) *registration {
	return &registration{report: func() reader { return r }}
}

// read takes up to n messages and returns them, none if the queue is empty.
func read(t *testing.T, q *Queue, n int) []Message {
	t.Helper()
	messages, err := q.Read(t.Context(), ReadConfig{Max: n})
	if err != nil && !errors.Is(err, ErrEmpty) {
		t.Fatalf("read %d: %v", n, err)
	}
	return messages
}

// bodies writes messages as words.
func bodies(messages []Message) string {
	words := make([]string, len(messages))
	for i, m := range messages {
		words[i] = string(m.Body)
	}
	return strings.Join(words, " ")
}

func receipts(messages []Message) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.Receipt
	}
	return list
}

func ack(t *testing.T, q *Queue, messages ...Message) {
	t.Helper()
	n, err := q.Ack(t.Context(), receipts(messages)...)
	want(t, "ack", n, len(messages), err)
}

func nack(t *testing.T, q *Queue, cfg NackConfig, messages ...Message) {
	t.Helper()
	n, err := q.Nack(t.Context(), cfg, receipts(messages)...)
	want(t, "nack", n, len(messages), err)
}

func stats(t *testing.T, q *Queue) Stats {
	t.Helper()
	s, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantSizes checks how many messages wait, are in flight, delayed and dead.
func wantSizes(t *testing.T, q *Queue, waiting, inFlight, delayed, dead int) {
	t.Helper()
	s := stats(t, q)
	want(t, "waiting, in flight, delayed, dead", [4]int{s.Waiting, s.InFlight, s.Delayed, s.Dead}, [4]int{waiting, inFlight, delayed, dead}, nil)
	n, err := q.Len(t.Context())
	want(t, "Len", n, waiting, err)
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(t.Context(), client.B().Arbitrary(args...).Build())
}

// eventually reads until it gets a message.
func eventually(t *testing.T, q *Queue) Message {
	t.Helper()
	messages, err := q.Read(t.Context(), ReadConfig{Block: 20 * time.Second})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return messages[0]
}

// dump returns the contents of the queue's keys.
func dump(t *testing.T, q *Queue) map[string]string {
	t.Helper()
	base := baseKey(q.name)
	found := map[string]string{}
	var cursor uint64
	for {
		page, err := q.run.Client.Do(t.Context(), q.run.Client.B().Scan().Cursor(cursor).Match(base+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range page.Elements {
			found[strings.TrimPrefix(name, base)] = content(t, q.run.Client, name)
		}
		if cursor = page.Cursor; cursor == 0 {
			return found
		}
	}
}

// content returns the contents of a key, in an order that depends on nothing else.
func content(t *testing.T, client rueidis.Client, key string) string {
	t.Helper()
	kind, err := do(t, client, "TYPE", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	command := map[string][]string{
		"hash": {"HGETALL", key}, "zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "list": {"LRANGE", key, "0", "-1"}, "string": {"GET", key},
	}[kind]
	if command == nil {
		return kind
	}
	result := do(t, client, command...)
	if kind == "hash" {
		fields, err := result.AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%q", fields)
	}
	value, err := result.ToAny()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", value)
}

// passes waits until so much time has passed on the server.
func passes(t *testing.T, client rueidis.Client, d time.Duration) {
	t.Helper()
	now := func() time.Time {
		parts, err := do(t, client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(parts[0], parts[1]*1000)
	}
	goal := now().Add(d)
	redistest.Eventually(t, "time passes on the server", func() bool { return now().After(goal) })
}

// evalsha matches the script calls of a queue.
func evalsha(cmd []string) bool { return redistest.Named("EVALSHA", "EVALSHA_RO")(cmd) }

// drained waits until nothing waits, is in flight or delayed.
func drained(t *testing.T, q *Queue) {
	t.Helper()
	redistest.Eventually(t, "the queue is drained", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Waiting+s.InFlight+s.Delayed == 0
	})
}

// setWeight gives a tenant a weight.
func setWeight(q *Queue, ctx context.Context, tenant string, weight float64) error { //nolint:revive // as a method would read
	return q.Limits().Set(ctx, tenant, OwnLimits{Weight: new(weight)})
}
