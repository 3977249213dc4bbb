package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
)

func TestJudgeQueues(t *testing.T) {
	t.Parallel()
	got := judgeQueues([]fairqueue.Stats{
		{Name: "well"},
		{Name: "un\u202eseen", Waiting: 3, OldestAge: time.Hour, Paused: true},
		{Name: "unread", Waiting: 3, OldestAge: time.Minute},
		{Name: "paused", Waiting: 3, OldestAge: time.Minute, Paused: true}, // an operator did that
		{Name: "forgotten", Waiting: 3, OldestAge: time.Hour, Paused: true},
	})
	want := []Finding{
		warning("paused", `the queue {"base64":"dW7igK5zZWVu"} is paused, and 3 messages wait`,
			`Stop it with: millrace queue resume '{"base64":"dW7igK5zZWVu"}'.`).in("queues"),
		warning("never_read", "the queue unread was never read: 3 messages wait, the oldest for 1m0s",
			"Start its consumer. If one runs, check that it uses the same name of the queue and the same Redis.").in("queues"),
		warning("paused", "the queue forgotten is paused, and 3 messages wait", "Stop it with: millrace queue resume forgotten.").in("queues"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
