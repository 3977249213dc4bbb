package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestBatchPages show the progress of batches, live, and close and cancel them.
func TestBatchPages(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("imports", fairqueue.Config{})
	id, err := q.Batches().Create(t.Context(), 3, fairqueue.Draft{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	h.write(q, fairqueue.Draft{Tenant: "acme", Batch: id}, fairqueue.Draft{Tenant: "acme", Batch: id})
	path := "/queues/imports/batches/" + id
	h.get("/queues/imports/batches").want(http.StatusOK).says("2 of 3")
	h.get(path).want(http.StatusOK).says("2 of 3")
	h.get("/queues/imports/batches/1795226400100321").want(http.StatusNotFound)
	v := h.watch(path)
	if got := v.next("facts"); !strings.Contains(got, `data-figure="left">2<`) {
		t.Errorf("the facts are %s", got)
	}
	messages, err := q.Read(t.Context(), fairqueue.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Ack(t.Context(), messages[0].Receipt); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the open page shows it", func() bool {
		if _, err := h.survey.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := v.next("facts")
		if strings.Contains(got, "say warning") {
			t.Fatalf("the page cannot be read again: %s", got)
		}
		return strings.Contains(got, `data-figure="left">1<`)
	})
	h.post(path+"/close", url.Values{}).want(http.StatusSeeOther)
	h.post(path+"/cancel", url.Values{}).want(http.StatusSeeOther)
	b, err := q.Batches().Get(t.Context(), id)
	if err != nil || b.State != fairqueue.BatchCancelled || b.Total != 2 || b.Left != 1 {
		t.Errorf("batch = %+v, %v, want one that was closed and cancelled, with a message left", b, err)
	}
}
