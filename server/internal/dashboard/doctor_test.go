package dashboard

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/observe/doctor"
)

func TestReportIsShownAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last lastReport
		asked := 0
		examine := func(context.Context) (doctor.Report, error) { asked++; return doctor.Report{}, nil }
		for _, step := range []struct {
			later, ttl time.Duration
			want       int // how often all was examined by then
		}{
			{0, reportTTL, 1},
			{2 * time.Second, reportTTL, 1},
			{0, againTTL, 2},
			{againTTL / 2, againTTL, 2},
			{reportTTL, reportTTL, 3},
		} {
			time.Sleep(step.later)
			_, at, err := last.get(t.Context(), step.ttl, examine)
			if err != nil || asked != step.want || time.Since(at) >= step.ttl {
				t.Errorf("a report of %s, examined %d times, %v, want %d times and %s at most", time.Since(at), asked, err, step.want, step.ttl)
			}
		}
	})
}

// A reader who asks the doctor again gets a new report.
func TestDoctorExaminesAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.pages.doctor.at = time.Now().Add(-2 * time.Second) // nothing was found
	page := h.get("/doctor").want(http.StatusOK)
	if got := page.all("data-check", "*"); len(got) > 0 {
		t.Fatalf("a report of two seconds ago is not shown again, but %q", got)
	}
	again := ""
	for n := range nodes(page.root, having("class", "button")) {
		again, _ = attribute(n, "href")
	}
	if got := h.get(again).want(http.StatusOK).all("data-check", "*"); len(got) == 0 {
		t.Errorf("%s shows the same report", again)
	}
}
