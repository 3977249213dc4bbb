package api_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

// schedules is part of TestOperations.
func schedules(s service, name string) {
	all := "/v1/queues/" + name + "/schedules"
	one := all + "/daily%2Freport"
	s.ask("GET", all, nil).want(200, `{"schedules":[]}`)
	s.ask("GET", one, nil).refused(404, "not_found")
	set := read[ops.Schedule](s.ask("PUT", one, object{
		"cron": "0 3 * * *", "zone": "Europe/Berlin", "tenant": "acme", "body": object{"base64": "/wA="}, "headers": object{"kind": "report"},
		"priority": 1, "cost": 350, "deadline": "1h", "jitter": "30s", "missed": "all",
	}).want(200, ""))
	if set.Name != "daily/report" || set.Words != "at 03:00 every day" || set.Zone != "Europe/Berlin" || set.Body != "\xff\x00" || set.Missed != "all" ||
		set.Headers["kind"] != "report" || set.Priority != 1 || set.Cost != 350 || set.Deadline != 3600_000 || set.Jitter != 30_000 || set.Next == nil || time.Until(*set.Next) > 25*time.Hour {
		s.t.Errorf("set %+v", set)
	}
	if got := read[ops.Schedule](s.ask("GET", one, nil).want(200, "")); got.Name != set.Name || !got.Next.Equal(*set.Next) {
		s.t.Errorf("shown %+v, want %+v", got, set)
	}
	s.ask("PUT", all+"/poll", object{"every": "15m", "tenant": "acme"}).want(200, "")
	if got := read[ops.Schedules](s.ask("GET", all, nil).want(200, "")).Schedules; len(got) != 2 || got[0].Name != "daily/report" || got[1].Words != "every 15m" {
		s.t.Errorf("listed %+v, want two by name", got)
	}
	ticks := read[ops.Ticks](s.ask("GET", one+"/next?max=2", nil).want(200, "")).Ticks
	if len(ticks) != 2 || !ticks[0].At.Equal(*set.Next) {
		s.t.Errorf("ticks %+v, want two from %s on", ticks, set.Next)
	}

	if got := read[ops.Schedule](s.ask("POST", one+"/pause", nil).want(200, "")); !got.Paused || got.Next != nil {
		s.t.Errorf("paused %+v", got)
	}
	if got := read[ops.Ticks](s.ask("GET", one+"/next", nil).want(200, "")).Ticks; len(got) != 10 {
		s.t.Errorf("%d ticks of a paused schedule, want 10", len(got))
	}
	ran := read[ops.RanSchedule](s.ask("POST", one+"/run", nil).want(201, "")).ID
	if m := s.take("/v1/queues/"+name, nil)[0]; m.ID != ran || m.Tenant != "acme" || m.Body != "\xff\x00" {
		s.t.Errorf("read %+v, want the message of the run", m)
	}
	if got := read[ops.Schedule](s.ask("POST", one+"/resume", nil).want(200, "")); got.Paused || got.Next == nil {
		s.t.Errorf("resumed %+v", got)
	}
	s.ask("DELETE", one, nil).want(200, `{"removed":true}`)
	for _, path := range []string{"/pause", "/resume", "/run"} {
		s.ask("POST", one+path, nil).refused(404, "not_found")
	}
	s.ask("DELETE", one, nil).refused(404, "not_found")
	s.ask("GET", one+"/next", nil).refused(404, "not_found")

	for _, body := range []object{
		{"tenant": "a"}, {"tenant": "a", "every": "1h", "cron": "* * * * *"}, {"tenant": "a", "every": "1h", "zone": "UTC"},
		{"tenant": "a", "every": "10ms"}, {"tenant": "a", "cron": "60 * * * *"}, {"tenant": "a", "cron": "* * * * *", "zone": "Mars/Phobos"},
		{"tenant": "", "every": "1h"},
	} {
		s.ask("PUT", one, body).refused(400, "bad_argument")
	}
	for _, body := range []object{{"every": "1h"}, {"tenant": "a", "every": "1h", "missed": "some"}, {"tenant": "a", "every": "1h", "delay": "1h"}} {
		s.ask("PUT", one, body).refused(400, "bad_request")
	}
	s.ask("PUT", one, nil).refused(400, "bad_request")

	preview := read[ops.Ticks](s.ask("GET", "/v1/schedules/preview?cron=30+2+*+*+*&zone=Europe/Berlin&max=5", nil).want(200, ""))
	if len(preview.Ticks) != 5 || preview.Words != "at 02:30 every day" {
		s.t.Errorf("preview %+v, want five ticks", preview)
	}
	s.ask("GET", "/v1/schedules/preview?every=90m", nil).want(200, "")
	s.ask("GET", "/v1/schedules/preview", nil).refused(400, "bad_argument")
	s.ask("GET", "/v1/schedules/preview?every=1h&max=1001", nil).refused(400, "bad_request")
}

// TestScheduleRunsOnceByKey: a repeat with the same Idempotency-Key writes no second message.
func TestScheduleRunsOnceByKey(t *testing.T) {
	t.Parallel()
	s, name := serve(t, api.Config{}), redistest.Name(t)
	one := "/v1/queues/" + name + "/schedules/daily"
	s.ask("PUT", one, object{"every": "1h", "tenant": "acme"}).want(200, "")
	first := s.ask("POST", one+"/run", nil, key(name)).want(201, "")
	again := s.ask("POST", one+"/run", nil, key(name)).want(201, "")
	if string(first.body) != string(again.body) {
		t.Errorf("answers %s and %s, want the same", first.body, again.body)
	}
	if got := read[ops.QueueStats](s.ask("GET", "/v1/queues/"+name+"/stats", nil)); got.Waiting != 1 {
		t.Errorf("%d messages wait, want one", got.Waiting)
	}
}
