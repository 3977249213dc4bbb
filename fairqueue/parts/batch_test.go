package parts

import (
	"errors"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// TestBatchLiesInOnePart with all its messages, also those of tenants that have other parts.
func TestBatchLiesInOnePart(t *testing.T) {
	t.Parallel()
	q := onShared(t, 8)
	id, err := q.CreateBatch(t.Context(), 6, fairqueue.Draft{Tenant: "end", Body: []byte("done")})
	if err != nil {
		t.Fatal(err)
	}
	p, inPart, err := q.find("the id of a batch", id)
	if err != nil {
		t.Fatal(err)
	}
	drafts := many(1, "a", "b", "c", "d", "e", "f")
	for i := range drafts {
		drafts[i].Batch = id
	}
	for _, w := range write(t, q, drafts...) {
		if at, _, err := q.find("the id", w.ID); at != p || err != nil {
			t.Errorf("message %s is in another part than batch %s, %v", w.ID, id, err)
		}
	}
	if drafts[0].Batch != id {
		t.Errorf("the caller's draft was changed: its batch is %s", drafts[0].Batch)
	}
	if _, err := q.Write(t.Context(), drafts[0]); !errors.Is(err, fairqueue.ErrBatch) {
		t.Errorf("a seventh message: %v, want %v", err, fairqueue.ErrBatch)
	}
	if s, _ := p.look(); s != open {
		t.Errorf("the part is %v after a draft that its batch refused", s)
	}
	for range 6 {
		messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Block: -1})
		if err != nil || len(messages) != 1 || messages[0].Batch != id {
			t.Fatalf("read = %+v, %v, want a message of batch %s", messages, err, id)
		}
		if _, err := q.Ack(t.Context(), messages[0].Receipt); err != nil {
			t.Fatal(err)
		}
	}
	messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Block: -1})
	if err != nil || messages[0].Headers[fairqueue.HeaderBatch] != id || messages[0].Headers[fairqueue.HeaderBatchHandled] != "6" {
		t.Fatalf("read = %+v, %v, want the end of batch %s", messages, err, id)
	}
	if got, err := q.Parts()[p.index].Batches().Get(t.Context(), inPart); err != nil || got.State != fairqueue.BatchDone {
		t.Errorf("batch = %+v, %v, want one that is done", got, err)
	}
}

func TestBadBatches(t *testing.T) {
	t.Parallel()
	q := onShared(t, 2)
	for what, d := range map[string]fairqueue.Draft{
		"no part":  {Tenant: "a", Batch: "1795226400100321"},
		"a source": {Tenant: "a", Batch: "0.1795226400100321", Source: "s", Position: 1},
	} {
		if _, err := q.Write(t.Context(), d); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("%s: %v, want %v", what, err, millrace.ErrBadArgument)
		}
	}
	if _, err := q.CreateBatch(t.Context(), 1, fairqueue.Draft{}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("no tenant: %v, want %v", err, millrace.ErrBadArgument)
	}
}
