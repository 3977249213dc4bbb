package fairqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestCheck: Check reports keys that another program changed, and does not panic.
func TestCheck(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, tt := range []struct {
		name, want string
		damage     []string // a command; KEY stands for the queue's
	}{
		{"nothing", "", []string{"PING"}},
		{"a message is lost", "without a body", []string{"HDEL", "KEY:hot", "ID"}},
		{"a message is nowhere", "is nowhere", []string{"HDEL", "KEY:hot", "=b"}},
		{"a flow has no turn", "in 0 of active, blocked and asleep", []string{"ZREM", "KEY:active", "=b"}},
		{"a turn has no flow", "active without messages", []string{"ZADD", "KEY:active", "1", "=z"}},
		{"a delivery is lost", "in flight: none is there, and counted are 1", []string{"HDEL", "KEY:hot", "HANDLE"}},
		{"a delivery is short", "cannot be read", []string{"HSET", "KEY:hot", "HANDLE", "x"}},
		{"a flow is short", "cannot be read", []string{"HSET", "KEY:hot", "=b", "B4;"}},
		{"an entry is short", "cannot be read", []string{"HSET", "KEY:hot", "=b", "B44123;9999"}},
		{"a foreign field", "of no class", []string{"HSET", "KEY:hot", "zzz", "x"}},
		{"a foreign member", "cannot be read", []string{"ZADD", "KEY:delayed", "1", "zzz"}},
		{"an owner is lost", "with handlers", []string{"HDEL", "KEY:hot", "o=a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := openOn(t, client, redistest.Name(t), Config{})
			write(t, q, "a:1 b:2")
			if _, err := q.call(t.Context(), "beat", "30000", "READER", "4", "0", "test", "host"); err != nil {
				t.Fatal(err)
			}
			if _, err := q.shared.work(t.Context(), []workRequest{{q: q, reader: readerOf(reader{id: "READER", handlers: 4}), max: 1, visibility: time.Hour}}, false); err != nil {
				t.Fatal(err)
			}
			deliveries, _ := readRaw(t, q)
			var handle string
			for handle = range deliveries.deliveries {
				break
			}
			var id string
			for _, e := range deliveries.flows["=b"] {
				id = e.id()
			}
			args := make([]string, len(tt.damage))
			for i, word := range tt.damage {
				args[i] = strings.NewReplacer("KEY", baseKey(q.name), "ID", id, "HANDLE", handle).Replace(word)
			}
			if err := do(t, client, args...).Error(); err != nil {
				t.Fatal(err)
			}
			wrong, err := q.Check(t.Context())
			if text := strings.Join(wrong, "\n"); err != nil || (tt.want == "") != (text == "") || !strings.Contains(text, tt.want) {
				t.Errorf("Check = %q, %v, want %q in it", text, err, tt.want)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		q := openOn(t, client, redistest.Name(t), Config{})
		_, err := q.Check(t.Context())
		wantError(t, err, millrace.ErrNotFound)
		for range 17 {
			_, err := q.Write(t.Context(), Draft{Tenant: "a", Body: make([]byte, 1000<<10)})
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = q.Check(t.Context())
		wantError(t, err, millrace.ErrTooLarge)
	})
}
