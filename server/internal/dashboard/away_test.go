package dashboard

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
)

// While Redis is away pages show the last survey, say so, and answer soon.
func TestPagesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Dialer.Timeout = time.Second })
	looks, err := survey.New(survey.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, client: client, survey: looks}
	h.serve(Config{Client: client, Survey: looks, Actions: true})
	h.get("/").want(http.StatusOK).says("The first survey of Redis is running.")
	h.write(h.queue("orders", fairqueue.Config{}), fairqueue.Draft{Tenant: "a"})
	h.look()

	server.Kill()
	if _, err := looks.Refresh(t.Context()); err == nil {
		t.Fatal("a look without a server succeeds")
	}
	began := time.Now()
	page := h.get("/queues/orders").want(http.StatusOK)
	page.says("Redis does not answer")
	page.figures(map[string]string{"waiting": "1"})
	if got := len(page.all("data-message", "*")); got != 0 {
		t.Errorf("the page shows %d messages", got)
	}
	h.get("/queues").want(http.StatusOK).says("orders")
	h.get("/doctor").want(http.StatusOK).says("reach")
	gone := h.get("/queues/unknown").want(http.StatusServiceUnavailable)
	gone.says("This page works again when it does")
	if gone.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("pages took %v", took)
	}
}
