package fairqueue

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFlowsOfNothingAreBounded: a call passes so many flows whose messages were cancelled,
// and a read goes on to the message behind them.
func TestFlowsOfNothingAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	const flows = 5000
	drafts := make([]Draft, flows)
	for i := range drafts {
		drafts[i].Tenant = fmt.Sprint("tenant", i)
	}
	written, err := q.WriteBatch(t.Context(), drafts...)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, flows)
	for i, w := range written {
		ids[i] = w.ID
	}
	if _, err := q.Cancel(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	write(t, q, "zz:behind")
	calls := commands(t, server, "evalsha")
	messages, err := q.Read(t.Context(), ReadConfig{Max: 1000})
	want(t, "read", bodies(messages), "behind", err)
	if n := commands(t, server, "evalsha") - calls; n < flows/2000 {
		t.Errorf("%d calls passed %d flows", n, flows)
	}
}
