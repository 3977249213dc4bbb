package parts

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestUnsettledOfABrokenPart: Consume reports at its end messages of a broken part that it did not settle, unless
// that part gave messages again.
func TestUnsettledOfABrokenPart(t *testing.T) {
	t.Parallel()
	for _, mended := range []bool{false, true} {
		t.Run(map[bool]string{false: "broken", true: "mended"}[mended], func(t *testing.T) {
			t.Parallel()
			client := redistest.Shared(t).Client(t)
			var log redistest.Log
			q := mustNew(t, Config{
				Parts: On(client, redistest.Name(t), 3),
				Queue: fairqueue.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			})
			first := q.parts[0].queue
			if _, err := first.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
				t.Fatal(err)
			}
			running, goOn := make(chan struct{}, 10), make(chan struct{})
			ctx, stop := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 3, Visibility: time.Second}, func(context.Context, fairqueue.Message) error {
					running <- struct{}{}
					<-goOn
					return nil
				})
			}()
			<-running
			key := "mr:queue:{" + first.Name() + "}:hot"
			record, err := client.Do(t.Context(), client.B().Hget().Key(key).Field("t").Build()).ToString()
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Do(t.Context(), client.B().Hdel().Key(key).Field("t").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			close(goOn)
			redistest.Eventually(t, "the part is given up", func() bool { return log.Count("cannot be read, while") > 0 })
			if mended {
				if err := client.Do(t.Context(), client.B().Hset().Key(key).FieldValue().FieldValue("t", record).Build()).Error(); err != nil {
					t.Fatal(err)
				}
				<-running
			}
			cause := errors.New("the test is over")
			stop(cause)
			err = <-ended
			if !errors.Is(err, cause) || errors.Is(err, fairqueue.ErrUnsettled) == mended || errors.Is(err, millrace.ErrBroken) == mended {
				t.Errorf("Consume = %v, want %v, and %t: %v", err, cause, !mended, fairqueue.ErrUnsettled)
			}
			if text := "1 message was not settled"; strings.Contains(err.Error(), text) == mended {
				t.Errorf("Consume = %q, want %t: %q in it", err, !mended, text)
			}
		})
	}
}
