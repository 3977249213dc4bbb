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
		{Name: "unread", Waiting: 3, OldestAge: time.Minute},
		{Name: "paused", Waiting: 3, OldestAge: time.Minute, Paused: true}, // an operator did that
		{Name: "forgotten", Waiting: 3, OldestAge: time.Hour, Paused: true},
	})
	want := []Finding{
		{Check: "queues", Level: Warn, Value: "the queue unread was never read: 3 messages wait, the oldest for 1m0s",
			Hint: "Start its consumer. If one runs, check that it uses the same name of the queue and the same Redis."},
		{Check: "queues", Level: Warn, Value: "the queue forgotten is paused, and 3 messages wait", Hint: "Stop it with: millrace queue resume forgotten."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
