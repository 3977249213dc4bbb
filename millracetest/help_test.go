package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/millracetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// kinds runs a test on a real server and on miniredis.
func kinds(t *testing.T, test func(t *testing.T, s *millracetest.Server)) {
	t.Helper()
	for _, kind := range []string{millracetest.Real, millracetest.Mini} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, millracetest.Start(t, kind))
		})
	}
}

func newQueue(t *testing.T, s *millracetest.Server, cfg fairqueue.Config) *fairqueue.Queue {
	t.Helper()
	q, err := fairqueue.New(s.Client, "orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func write(t *testing.T, q *fairqueue.Queue, drafts ...fairqueue.Draft) {
	t.Helper()
	if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
}

func succeed(context.Context, fairqueue.Message) error { return nil }

var errOdd = errors.New("odd")

// fakeTB is a test that records how it fails. Its cleanups are those of the real test.
type fakeTB struct {
	testing.TB

	failed, fatal, skipped string
}

func (f *fakeTB) Errorf(format string, args ...any) { f.failed += fmt.Sprintf(format, args...) + "\n" }
func (f *fakeTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *fakeTB) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// try runs code with a test that may fail, and returns how it failed.
func try(t *testing.T, code func(t testing.TB)) *fakeTB {
	t.Helper()
	f := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		code(f)
	}()
	<-done
	return f
}

// wantText checks that a text has all parts; none means that it is empty.
func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	if len(parts) == 0 && text != "" {
		t.Errorf("it says %q, want nothing", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it says %q, want %q in it", text, part)
		}
	}
}

// quiet is the logger of handlers that fail in examples.
var quiet = slog.New(slog.DiscardHandler)

// exampleT is the t of examples.
type exampleT struct {
	testing.TB

	cleanups []func()
}

func newT() *exampleT { return &exampleT{} }

func (t *exampleT) Helper()                           {}
func (t *exampleT) Context() context.Context          { return context.Background() }
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Logf(string, ...any)               {}
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
