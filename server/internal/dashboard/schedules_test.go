package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/schedule"
)

// TestSchedulePages creates a schedule with the form, and does everything with it that its page
// offers.
func TestSchedulePages(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.look()
	h.get("/schedules").want(http.StatusOK).says("millrace schedule set reports daily")

	form := url.Values{"queue": {"re ports"}, "name": {"daily/<b>"}, "cron": {"0 3 * * *"}, "zone": {"Mars/Phobos"}, "tenant": {"acme"}, "body": {"<hello>"}, "jitter": {"30s"}, "missed": {"all"}}
	again := h.follow(h.post("/schedules/new", form))
	if got := again.one("data-flash", "bad"); !strings.Contains(got, "Mars/Phobos") {
		t.Errorf("the page says %q, want to read of the zone", got)
	}
	if got := again.one("id", "body"); got != "<hello>" {
		t.Errorf("the form has the body %q, want what was typed", got)
	}
	preview := h.get("/schedules/new?cron=0+12+28-30+3+*&zone=Europe/Berlin").want(http.StatusOK)
	if ticks := preview.all("data-tick", "*"); len(ticks) != 5 || preview.one("data-words", "") != "at 12:00, on days 28 to 30 of the month in March" {
		t.Errorf("the preview has the ticks %v", ticks)
	}
	h.get("/schedules/new?cron=0+99+*+*+*").want(http.StatusOK).says("hour")
	h.get("/schedules/new?every=soon").want(http.StatusOK).says("The interval is not a duration")
	for name, value := range map[string]string{"every": "1h", "jitter": "soon", "tenant": "", "missed": "some"} {
		wrong := url.Values{"zone": {"Europe/Berlin"}}
		for k, v := range form {
			if k != "zone" {
				wrong[k] = v
			}
		}
		wrong.Set(name, value)
		h.follow(h.post("/schedules/new", wrong)).one("data-flash", "bad")
	}

	form.Set("zone", "Europe/Berlin")
	page := h.follow(h.post("/schedules/new", form))
	if got := page.one("data-flash", "good"); got != "The schedule ticks at 03:00 every day." {
		t.Errorf("the page says %q", got)
	}
	page.says("at 03:00 every day, in the time of Europe/Berlin")
	page.says("one message for each missed tick, and each message up to 30s after its tick")
	if ticks := page.all("data-tick", "*"); len(ticks) != shownTicks {
		t.Errorf("%d ticks, want %d", len(ticks), shownTicks)
	}
	h.look()
	h.get("/schedules").want(http.StatusOK).says("03:00:00 +0") // in Berlin
	const path = "/queues/re%20ports/schedules/~ZGFpbHkvPGI-"
	redistest.Eventually(t, "the queue is listed", func() bool { // which happens in the background
		h.look()
		return len(h.get("/schedules").want(http.StatusOK).all("data-schedule", "*")) > 0
	})
	h.get("/schedules").want(http.StatusOK).one("data-schedule", "daily/<b>")
	h.get("/schedules?queue=re+ports").want(http.StatusOK).one("data-schedule", "daily/<b>")
	if rows := h.get("/schedules?queue=others").want(http.StatusOK).all("data-schedule", "*"); len(rows) != 0 {
		t.Errorf("another queue has the schedules %v", rows)
	}
	h.get("/queues/re%20ports").want(http.StatusOK).says("1 schedule")

	page = h.follow(h.post(path+"/pause", url.Values{}))
	page.says("None while it is paused.")
	page.one("data-paused", "")
	h.follow(h.post(path+"/resume", url.Values{})).figures(map[string]string{"missed": "0"})
	page = h.follow(h.post(path+"/run", url.Values{}))
	if got := page.one("data-flash", "good"); !strings.HasPrefix(got, "The message ") {
		t.Errorf("the page says %q", got)
	}
	q := h.queue("re ports", fairqueue.Config{})
	if messages, err := q.Read(t.Context(), fairqueue.ReadConfig{}); err != nil || string(messages[0].Body) != "<hello>" {
		t.Errorf("read %v, %v, want the message of the run", messages, err)
	}
	if got := h.post(path+"/remove", url.Values{}); got.header.Get("Location") != "/schedules" {
		t.Errorf("after the removal the browser goes to %q", got.header.Get("Location"))
	}
	h.get(path).want(http.StatusNotFound)
	h.post(path+"/pause", url.Values{}).want(http.StatusSeeOther)
}

// TestLastMessageOfASchedule: its page links to the message of the last tick while that is there.
func TestLastMessageOfASchedule(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("polls", fairqueue.Config{})
	spec, err := schedule.Every(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Schedules().Set(t.Context(), fairqueue.Schedule{Name: "often", Spec: spec, Draft: fairqueue.Draft{Tenant: "acme"}}); err != nil {
		t.Fatal(err)
	}
	messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Block: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Schedules().Pause(t.Context(), "often"); err != nil {
		t.Fatal(err)
	}
	state, err := q.Schedules().Get(t.Context(), "often")
	if err != nil {
		t.Fatal(err)
	}
	h.look()
	page := h.get("/queues/polls/schedules/often").want(http.StatusOK)
	page.figures(map[string]string{"ticks": readable.Number(state.Ticks)})
	page.one("data-last", "")
	if state.LastID != messages[0].ID { // another tick came before the pause
		if _, err := q.Cancel(t.Context(), state.LastID); err != nil {
			t.Fatal(err)
		}
	} else if _, err := q.Ack(t.Context(), messages[0].Receipt); err != nil {
		t.Fatal(err)
	}
	if links := h.get("/queues/polls/schedules/often").want(http.StatusOK).all("data-last", ""); len(links) != 0 {
		t.Error("there is a link to a message that is gone")
	}
}

// TestSchedulesAreReadOnly: without actions nothing can be changed, and nothing is offered.
func TestSchedulesAreReadOnly(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *Config) { c.Actions = false })
	for _, path := range []string{"/schedules/new", "/queues/a/schedules/b/run", "/queues/a/schedules/b/remove"} {
		h.post(path, url.Values{"queue": {"a"}, "name": {"b"}, "every": {"1h"}, "tenant": {"t"}}).want(http.StatusForbidden)
	}
	h.get("/schedules/new").want(http.StatusOK).says("read-only")
}

// TestOverdueSchedules: a tick that no agent writes is on the overview, in the navigation and on its
// page, with advice.
func TestOverdueSchedules(t *testing.T) {
	t.Parallel()
	now := time.Now()
	spec, err := schedule.Every(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	due := fairqueue.ScheduleState{Next: now.Add(-3 * time.Minute)}
	due.Name, due.Spec = "hourly", spec
	v := &survey.View{
		At: now, Named: now,
		Queues:    []fairqueue.Stats{{Name: "reports", At: now, Schedules: 1, OverdueSchedules: 1}},
		Schedules: []survey.Schedule{{Queue: "reports", At: now, ScheduleState: due}},
	}
	s := newStage(v)
	h := on(t, s)
	h.get("/").want(http.StatusOK).says("has 1 overdue schedule: a tick is due for more than a minute. Nobody keeps it: start a reader of the queue, or upkeep.")
	h.get("/schedules").want(http.StatusOK).says("due for 3m0s")
	h.get("/queues/reports/schedules/hourly").want(http.StatusOK).one("data-overdue", "")
	v.Queues[0].Readers = []queuestats.Reader{{Name: "w", Concurrency: 5, LastSeen: now}}
	s.show(v)
	h.get("/").want(http.StatusOK).says("the log of a reader says why")
}
