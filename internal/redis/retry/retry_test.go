package retry_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoRepeatsWhilePatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var numbers []int
		err := retry.Policy{Timeout: time.Second}.Do(t.Context(), func(number int) error {
			numbers = append(numbers, number)
			return io.EOF
		})
		if !errors.Is(err, io.EOF) {
			t.Errorf("error = %v, want the last try's", err)
		}
		if elapsed := time.Since(start); elapsed > time.Second || elapsed < 500*time.Millisecond {
			t.Errorf("gave up after %v, want to use most of the second and no more", elapsed)
		}
		for i, number := range numbers {
			if number != i+1 {
				t.Errorf("numbers = %v, want 1, 2, 3, ...", numbers)
				break
			}
		}
		if len(numbers) < 7 {
			t.Errorf("tries = %d, want the pauses to begin short", len(numbers))
		}
	})
}

func TestDoEndsWithSuccessAnswerOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		if err := (retry.Policy{}).Do(t.Context(), func(int) error {
			if tries++; tries == 3 {
				return nil
			}
			return io.EOF
		}); err != nil || tries != 3 {
			t.Errorf("Do = %v after %d tries, want success at the third", err, tries)
		}

		ctx, cancel := context.WithCancel(t.Context())
		err := retry.Policy{Base: time.Hour, Max: time.Hour, Timeout: 5 * time.Hour}.Do(ctx, func(int) error {
			time.AfterFunc(time.Second, cancel)
			return io.EOF
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, io.EOF) {
			t.Errorf("error = %v, want both the cancel and the last try's", err)
		}
	})
}

// TestAnothersEnd: a call that fails as cancelled, too late or on a closed connection,
// though its own context goes on, is repeated.
func TestAnothersEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, rueidis.ErrClosing} {
		tries := 0
		err := retry.Policy{}.Do(t.Context(), func(int) error {
			if tries++; tries == 1 {
				return end
			}
			return nil
		})
		if err != nil || tries != 2 {
			t.Errorf("Do after %v = %v after %d tries, want success at the second", end, err, tries)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tries = 0
		err = retry.Policy{}.Do(ctx, func(int) error { tries++; return end })
		if !errors.Is(err, end) || tries != 1 {
			t.Errorf("Do with an ended context = %v after %d tries, want %v after one", err, tries, end)
		}
	}
}

// TestClosedClient: a client that is closed twice in a row is closed for good.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	tries := 0
	err := retry.Policy{}.Do(t.Context(), func(int) error {
		tries++
		return []error{rueidis.ErrClosing, io.EOF, rueidis.ErrClosing, rueidis.ErrClosing}[tries-1]
	})
	if !errors.Is(err, rueidis.ErrClosing) || tries != 4 {
		t.Errorf("Do = %v after %d tries, want %v after 4", err, tries, rueidis.ErrClosing)
	}
}

func TestPauseDoublesUpToMax(t *testing.T) {
	t.Parallel()
	p := retry.Policy{Base: 8 * time.Millisecond, Max: 50 * time.Millisecond}
	for number, whole := range map[int]time.Duration{1: 8, 2: 16, 3: 32, 4: 50, 5: 50, 1000: 50} {
		whole *= time.Millisecond
		for range 20 {
			if got := p.Pause(number); got < whole/2 || got > whole {
				t.Errorf("Pause(%d) = %v, want between %v and %v", number, got, whole/2, whole)
			}
		}
	}
}

// TestTransient: errors that the server under test has no reply for. TestRecordedReplies
// has the rest.
func TestTransient(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                                   true,
		"UNBLOCKED force unblock from blocking operation":                                                  true,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": true,
		"ERR syntax error":                        false,
		"ERR no such key LOADING":                 false,
		"BUSYKEY Target key name already exists.": false,
	} {
		err := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
		if got := retry.Transient(err); got != want {
			t.Errorf("Transient(%q) = %v, want %v", text, got, want)
		}
		if named := millrace.ErrBroken.Wrap(err); retry.Transient(named) != want {
			t.Errorf("Transient(%v) = %v, want %v as without a name", named, !want, want)
		}
	}
	for err, want := range map[error]bool{
		nil: false, io.EOF: true, context.Canceled: false, context.DeadlineExceeded: false, rueidis.ErrClosing: false,
	} {
		if got := retry.Transient(err); got != want {
			t.Errorf("Transient(%v) = %v, want %v", err, got, want)
		}
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin, name := server.Client(t), redistest.Name(t)
	if err := admin.Do(t.Context(), admin.B().Arbitrary("ACL", "SETUSER").Args(name, "on", ">pw", "~k", "+eval", "+strlen", "+ping", "+client", "+hello").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = name, "pw" })
	script := func(source string) error {
		return client.Do(t.Context(), client.B().Eval().Script(source).Numkeys(1).Key("k").Build()).Error()
	}
	for what, err := range map[string]error{
		"a command":                       client.Do(t.Context(), client.B().Get().Key("k").Build()).Error(),
		"a key":                           client.Do(t.Context(), client.B().Strlen().Key("other").Build()).Error(),
		"a command of a script":           script("return redis.call('GET', KEYS[1])"),
		"a command of a careful script":   script("return redis.pcall('GET', KEYS[1])"),
		"another key to a script":         script("return redis.call('STRLEN', 'other')"),
		"another key to a careful script": script("return redis.pcall('STRLEN', 'other')"),
	} {
		if !retry.Denied(err) || retry.Transient(err) {
			t.Errorf("%s is denied with %v, which is not taken for that", what, err)
		}
	}
	if retry.Denied(nil) || retry.Denied(io.EOF) {
		t.Error("something else is taken for a denial")
	}
}
