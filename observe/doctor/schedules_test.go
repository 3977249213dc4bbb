package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/schedule"
)

func TestJudgeSchedules(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queues []fairqueue.Stats
		unread int
		want   []Severity
	}{
		"no schedules":    {[]fairqueue.Stats{{Name: "a"}}, 0, nil},
		"in time":         {[]fairqueue.Stats{{Name: "a", Schedules: 2}}, 0, []Severity{OK}},
		"late":            {[]fairqueue.Stats{{Name: "a", Schedules: 2, OverdueSchedules: 1}, {Name: "b", Schedules: 1}}, 0, []Severity{Warning}},
		"unread":          {nil, 1, []Severity{Note}},
		"late and more":   {[]fairqueue.Stats{{Name: "a", Schedules: 1, OverdueSchedules: 1, Capacity: 5}}, 2, []Severity{Warning, Note}},
		"in time, so far": {[]fairqueue.Stats{{Name: "a", Schedules: 1}}, 1, []Severity{OK, Note}},
	} {
		var got []Severity
		for _, f := range judgeSchedules(test.queues, test.unread) {
			if got = append(got, f.Severity); f.Check != "schedules" || (f.Advice == "") != (f.Severity == OK) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestExamineSchedules: a report has the schedules of a Redis, if there are any.
func TestExamineSchedules(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	if r := examined(t, client); r.Work != nil {
		t.Errorf("without schedules the report has %+v", r.Work)
	}
	q, err := fairqueue.New(client, "reports", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := schedule.Every(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Schedules().Set(t.Context(), fairqueue.Schedule{Name: "hourly", Spec: spec, Draft: fairqueue.Draft{Tenant: "acme"}}); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the queue is registered", func() bool {
		for range fairqueue.List(context.Background(), client) {
			return true
		}
		return false
	})
	r := examined(t, client)
	if diff := cmp.Diff([]Finding{ok("1 schedule, none overdue").in("schedules")}, r.Work); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
