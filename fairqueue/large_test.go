package fairqueue

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestLargeMessages: a call for many reads large messages one by one until it has a mebibyte, and small ones together; each
// has its own body, also from the backlog of its flow, and may be cancelled there.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	q.shared.run.Lanes = new(reqid.Lanes) // so that its only lane is known to the queue
	write(t, q, "t0:0")
	ack(t, q, read(t, q, 1)...)
	var drafts []Draft
	for i := range 60 {
		size := 100
		if i%3 == 0 {
			size = 100 << 10
		}
		drafts = append(drafts, Draft{Tenant: fmt.Sprint("t", i%2), Body: bytes.Repeat([]byte{byte(i)}, size)})
	}
	byID := map[string]Draft{}
	largest := ""
	for i, w := range writeDrafts(t, q, drafts...) {
		byID[w.ID] = drafts[i]
		if len(drafts[i].Body) > largeMessage {
			largest = w.ID
		}
	}
	wrong, err := q.Check(t.Context())
	want(t, "what is wrong", len(wrong), 0, err)
	cancelled, err := q.Cancel(t.Context(), largest)
	want(t, "cancelled in the backlog", cancelled, []State{Waiting}, err)
	delete(byID, largest)
	reads := 0
	for ; len(byID) > 0; reads++ {
		before := commands(t, server, "hget")
		got, err := q.shared.takePlain(t.Context(), order{roll: anyone, most: 100, visibility: time.Minute})
		if err != nil || got == nil || len(got.items) == 0 {
			t.Fatalf("a short call took %+v (%v), want messages", got, err)
		}
		total, large := 0, 0
		for _, item := range got.items {
			_, m, err := delivered(item, got.now)
			if d, there := byID[m.ID]; err != nil || !there || !bytes.Equal(m.Body, d.Body) || m.Tenant != d.Tenant {
				t.Fatalf("message %s of %s has %d bytes, or comes twice (%v)", m.ID, m.Tenant, len(m.Body), err)
			}
			delete(byID, m.ID)
			total += len(m.Body)
			if len(m.Body) > largeMessage {
				large++
			}
		}
		if total > 1<<20+100<<10 {
			t.Errorf("a call read %d bytes, want a mebibyte and a message at most", total)
		}
		if n := commands(t, server, "hget") - before; n != large {
			t.Errorf("%d messages, %d of them large, took %d reads of single fields, want one for each large one", len(got.items), large, n)
		}
	}
	if reads < 2 {
		t.Errorf("%d reads took all messages, want more", reads)
	}
}
