package wake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/wake"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	push := func() {
		t.Helper()
		if err := client.Do(t.Context(), client.B().Lpush().Key("wake").Element("1").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	blocked := func() bool { return server.Info("clients")["blocked_clients"] == "1" }
	type outcome struct {
		woken bool
		err   error
	}
	wait := func(ctx context.Context, most time.Duration) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			woken, err := wake.Wait(ctx, client, "wake", most)
			done <- outcome{woken, err}
		}()
		return done
	}

	push() // a token that lies there already is not missed
	if got := <-wait(t.Context(), time.Hour); !got.woken || got.err != nil {
		t.Errorf("wait with a token there = %+v, want woken", got)
	}
	sleeping := wait(t.Context(), time.Hour)
	redistest.Eventually(t, "it sleeps", blocked)
	push()
	if got := <-sleeping; !got.woken || got.err != nil {
		t.Errorf("wait when a token comes = %+v, want woken", got)
	}
	for _, most := range []time.Duration{-time.Second, 0, time.Microsecond, 20 * time.Millisecond} {
		if got := <-wait(t.Context(), most); got.woken || got.err != nil {
			t.Errorf("wait of %v without a token = %+v, want that the time is over", most, got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	sleeping = wait(ctx, time.Hour)
	redistest.Eventually(t, "it sleeps", blocked)
	cancel()
	if got := <-sleeping; !errors.Is(got.err, context.Canceled) {
		t.Errorf("wait when the context ends = %+v, want context.Canceled", got)
	}
	redistest.Eventually(t, "nobody sleeps any more", func() bool { return server.Info("clients")["blocked_clients"] == "0" })
}

// TestWaitOnAHangingServer: the client does not give up a connection with a blocked call.
func TestWaitOnAHangingServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	ended := make(chan error, 1)
	go func() {
		_, err := wake.Wait(t.Context(), client, "wake", 500*time.Millisecond)
		ended <- err
	}()
	redistest.Eventually(t, "it sleeps", func() bool { return server.Info("clients")["blocked_clients"] == "1" })
	server.Pause()
	defer server.Resume()
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait on a hanging server = %v, want that there was no answer", err)
	}
}

// TestWaitOnAClosedClient: a wait ends without an error; the next call reports a client that is closed for good.
func TestWaitOnAClosedClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	client.Close()
	if woken, err := wake.Wait(t.Context(), client, "wake", time.Hour); woken || err != nil {
		t.Errorf("wait on a closed client = %v, %v, want that it is over", woken, err)
	}
}
