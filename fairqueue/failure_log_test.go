package fairqueue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFailuresOfANight: a consumer whose handlers fail a hundred times a second logs a line a second, and says how many
// it did not log.
func TestFailuresOfANight(t *testing.T) {
	t.Parallel()
	var l failureLog
	start := time.Now()
	logged, unlogged := 0, 0
	for i := range 100 * 3600 {
		if n, ok := l.admit(start.Add(time.Duration(i) * 10 * time.Millisecond)); ok {
			logged++
			unlogged += n
		}
	}
	if logged < 3600 || logged > 3600+failureBurst {
		t.Errorf("%d lines in an hour, want one a second and a burst", logged)
	}
	if unlogged+logged+l.unlogged != 100*3600 {
		t.Errorf("%d lines, %d others, and %d since: want the sum of all failures", logged, unlogged, l.unlogged)
	}
	for i := range failureBurst { // after a quiet hour
		if _, ok := l.admit(start.Add(2 * time.Hour)); !ok {
			t.Errorf("failure %d after a quiet hour is not logged", i+1)
		}
	}
	if _, ok := l.admit(start.Add(2 * time.Hour)); ok {
		t.Error("more than a burst is logged at once")
	}
}

// TestHandlersThatFailAreLogged: with their tenant, message and attempt. Throttling is no failure.
func TestHandlersThatFailAreLogged(t *testing.T) {
	t.Parallel()
	var log redistest.Log
	q := open(t, Config{MaxAttempts: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	write(t, q, "acme:fails globex:panics initech:throttles")
	handled := make(chan Message, 10)
	stop := consume(t, q, ConsumeConfig{}, func(_ context.Context, m Message) error {
		defer func() { handled <- m }()
		switch m.Tenant {
		case "acme":
			return errors.New("no such street")
		case "globex":
			panic("at the mill")
		}
		return Throttle(time.Hour, errors.New("429"))
	})
	ids := map[string]string{}
	for range 3 {
		m := <-handled
		ids[m.Tenant] = m.ID
	}
	redistest.Eventually(t, "two are dead", func() bool { return stats(t, q).Dead == 2 })
	stop()
	for _, want := range []string{
		`level=WARN msg="a handler failed" queue=` + q.name + " tenant=acme message=" + ids["acme"] + ` attempt=1 error="no such street"`,
		`level=ERROR msg="a handler failed" queue=` + q.name + " tenant=globex message=" + ids["globex"] + ` attempt=1 error="panic: at the mill`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %q, want %q", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "initech") {
		t.Errorf("the log is %q, want no failure of the tenant that is throttled", log.String())
	}
}
