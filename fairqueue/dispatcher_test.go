package fairqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// refusing is a client for which one script fails.
type refusing struct {
	rueidis.Client
	sha string
}

func (r refusing) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if args := cmd.Commands(); len(args) > 1 && args[1] == r.sha {
		cmd = r.B().Arbitrary("EVAL", "return redis.error_reply('BROKEN no luck')", "0").Build()
	}
	return r.Client.Do(ctx, cmd)
}

// TestGivenBackIsTold also if another request in the call fails.
func TestGivenBackIsTold(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q := openOn(t, client, redistest.Name(t), Config{})
	write(t, q, "a:1 b:2")
	messages, err := q.Read(t.Context(), ReadConfig{Max: 2, Visibility: time.Hour})
	if err != nil || len(messages) != 2 {
		t.Fatalf("Read = %v, %v", messages, err)
	}
	back := workRequest{q: q, settle: []settlement{{messages[0].receipt(), "n", settleArg(0, "no luck")}}}
	both := workRequest{q: q, settle: []settlement{{messages[1].receipt(), "a", ""}}, max: 1, visibility: time.Hour}
	d := newDispatcher(refusing{client, library.Script("work_plain").SHA()}, q.name)
	answers, err := d.work(t.Context(), []workRequest{back, both}, false)
	if err != nil || answers[0].err != nil || answers[0].verdicts[0] != 1 {
		t.Errorf("what was given back is told as %+v, %v", answers, err)
	} else if !errors.Is(answers[1].err, millrace.ErrBroken) {
		t.Errorf("what failed is told as %+v", answers[1])
	}
	if s := stats(t, q); s.Waiting != 1 || s.InFlight != 1 {
		t.Errorf("%d wait and %d are in flight, want 1 and 1", s.Waiting, s.InFlight)
	}
}
