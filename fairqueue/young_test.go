package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestDeadReaderOnAQuietQueue: a dead reader's messages come back at the end of their visibility to the only
// consumer, which is idle, though receipts that were settled lie before the dead reader's.
func TestDeadReaderOnAQuietQueue(t *testing.T) {
	t.Parallel()
	const late = 5 * time.Second // of a busy machine; without the pops it never comes
	for settled, how := range map[int]string{1: "one", 900: "many"} {
		t.Run(fmt.Sprint("behind ", how), func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			arrived, goOn := make(chan Message, 1), make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- q.Consume(ctx, ConsumeConfig{Concurrency: 1}, func(_ context.Context, m Message) error {
					if string(m.Body) != "quick" {
						arrived <- m
						select {
						case <-goOn:
						case <-ctx.Done():
						}
					}
					return nil
				})
			}()
			t.Cleanup(func() {
				stop()
				<-ended
			})
			for n := settled - 1; n > 0; n -= 100 {
				write(t, q, strings.Repeat("a:quick ", min(n, 100)))
			}
			write(t, q, "a:held")
			<-arrived
			write(t, q, "a:lost") // later: on a busy machine the consumer hands back the first of several
			dead := openOn(t, redistest.Shared(t).Client(t), q.name, Config{})
			visibility := shortest
			for { // the consumer hands back messages that it cannot start, and on a busy machine those that it had for long, too
				got, err := dead.Read(t.Context(), ReadConfig{Visibility: visibility, Block: late})
				if err != nil {
					t.Fatal(err)
				}
				if string(got[0].Body) == "lost" {
					break
				}
				ack(t, dead, got...)
			}
			began := time.Now()
			goOn <- struct{}{}
			select {
			case m := <-arrived:
				took := time.Since(began)
				if string(m.Body) != "lost" || m.Attempt != 2 || took < visibility-time.Second || took > visibility+late {
					t.Errorf("message %q came after %v at attempt %d, want the lost one after %v at attempt 2", m.Body, took, m.Attempt, visibility)
				}
				goOn <- struct{}{}
			case <-time.After(visibility + 2*late):
				t.Errorf("the message of a dead reader did not come back within %v, want %v; the queue has %v", visibility+2*late, visibility, dump(t, q))
			}
			drained(t, q)
			if wrong, err := q.Check(t.Context()); len(wrong) > 0 || err != nil {
				t.Errorf("the queue is wrong: %q, %v", wrong, err)
			}
		})
	}
}

// TestMoreYoungThanOneCallAges: behind more settled receipts than a call looks at, the next call says that something is due, so that no
// delivery behind them is forgotten if the caller does not go on.
func TestMoreYoungThanOneCallAges(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	writeAll(t, q, 1100, Draft{Tenant: "a"})
	held, err := q.Read(t.Context(), ReadConfig{Max: 1000})
	want(t, "read", len(held), 1000, err)
	ack(t, q, held...)
	lost, err := q.Read(t.Context(), ReadConfig{Max: 100})
	want(t, "read", len(lost), 100, err)
	reply, err := q.call(t.Context(), "tend", "")
	if err != nil || reply.Int() == 0 {
		t.Fatalf("tend = %v, want that there is more", err)
	}
	there, _ := readRaw(t, q)
	if next := time.UnixMilli(int64(there.next)); next.After(time.Now().Add(time.Minute)) {
		t.Errorf("something is due at %v, and there is more to do now", next)
	}
}
