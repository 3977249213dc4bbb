package fairqueue

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestWrongTypesInAShortWrite: one that would give a flow a turn, and another one an entry in backlog, does neither.
func TestWrongTypesInAShortWrite(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q := openOn(t, client, redistest.Name(t), Config{})
	q.run.Lanes = &reqid.Lanes{}
	write(t, q, strings.Repeat("a:x ", 20))
	if err := do(t, client, "SET", baseKey(q.name)+":backlog", "foreign").Error(); err != nil {
		t.Fatal(err)
	}
	before := dump(t, q)
	_, err := q.WriteBatch(t.Context(), Draft{Tenant: "b"}, Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrBroken)
	if diff := cmp.Diff(before, dump(t, q)); diff != "" {
		t.Errorf("a refused call changed the queue (-before +after):\n%s", diff)
	}
}

// TestWrongTypesInShortCalls: a short call that comes upon a key of another type changes nothing, also where it has taken
// a turn before. The reads here need a flow's next entries from backlog.
func TestWrongTypesInShortCalls(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, part := range []string{":active", ":young", ":backlog"} {
		for _, most := range []int{1, 3} {
			t.Run(part+map[bool]string{true: " alone", false: " with others"}[most == 1], func(t *testing.T) {
				t.Parallel()
				q := openOn(t, client, redistest.Name(t), Config{})
				q.run.Lanes = &reqid.Lanes{} // the first call makes the lane of all others known
				write(t, q, strings.Repeat("a:x ", 20)+"b:y")
				for range 16 {
					ack(t, q, read(t, q, 1)...)
				}
				if err := do(t, client, "SET", baseKey(q.name)+part, "foreign").Error(); err != nil {
					t.Fatal(err)
				}
				before := dump(t, q)
				_, err := q.Read(t.Context(), ReadConfig{Max: most})
				if !errors.Is(err, millrace.ErrBroken) {
					t.Errorf("error = %v, want ErrBroken", err)
				}
				if diff := cmp.Diff(before, dump(t, q)); diff != "" {
					t.Errorf("a refused call changed the queue (-before +after):\n%s", diff)
				}
			})
		}
	}
}
