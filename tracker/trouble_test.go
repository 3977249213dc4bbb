package tracker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestLostReplies loses the reply of each call that a program makes after the
// server did the work. The library asks again, and nothing is counted twice.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	work := &table{}
	tr := openOn(t, proxy.Client(t), redistest.Name(t), Config{Source: work})
	if _, err := tr.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	work.start("a", "b")
	pass(t, tr)
	add(t, tr, "c")
	losing := func(what string, call func() error) {
		t.Helper()
		fault := proxy.DropReply(redistest.Script)
		if err := call(); err != nil {
			t.Errorf("%s = %v", what, err)
		}
		if fault.Count() != 1 {
			t.Errorf("%s: %d replies lost, want 1", what, fault.Count())
		}
	}
	losing("Add", func() error { return tr.Add(t.Context(), "c", "d") })
	losing("Queued", func() error { _, err := tr.Queued(t.Context(), "d"); return err })
	losing("Stats", func() error { _, err := tr.Stats(t.Context()); return err })
	losing("Fill", func() error { return tr.Fill(t.Context(), nil) })
	s := stats(t, tr)
	if got, want := s.Counters.Added, int64(4); got != want {
		t.Errorf("Added = %d, want %d", got, want)
	}
	losing("Delete", func() error { _, err := tr.Delete(t.Context()); return err })
	wantState(t, tr, "a", Unknown)
}

// TestLostRepliesOfSlices: a slice is not repeated, its work stands, and the next
// one goes on behind it.
func TestLostRepliesOfSlices(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	work := &table{}
	tr := openOn(t, proxy.Client(t), redistest.Name(t), Config{Source: work, AddRows: 1})
	work.start("a", "b")
	add(t, tr, "gone")
	walkOne(t, tr) // the server knows the scripts from now on
	verifyOne(t, tr)
	add(t, tr, "gone")
	// The second call of a slice is the one that writes.
	losing := func(job millrace.Job) {
		t.Helper()
		tick(t, tr)
		work.during = func() { proxy.DropReply(redistest.Script) }
		if progress, err := job.Slice(t.Context()); err == nil || progress != millrace.Idle {
			t.Errorf("slice of %s = %v, %v, want the lost connection", job.Name, progress, err)
		}
	}
	losing(tr.Jobs()[0])
	losing(tr.Jobs()[1])
	if diff := cmp.Diff([]string{"a", "b"}, tracked(t, tr)); diff != "" {
		t.Errorf("tracked (-want +got):\n%s", diff)
	}
	walkOne(t, tr)
	if got, want := stats(t, tr).Passes, int64(1); got != want {
		t.Errorf("Passes = %d, want %d", got, want)
	}
}

// TestScriptsAreForgotten: a server that lost the scripts gets them again.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "x", Config{Source: work})
	work.start("a")
	for range 2 {
		must(t, tr.run.Client, "SCRIPT", "FLUSH")
		walkOne(t, tr)
		verifyOne(t, tr)
		wantState(t, tr, "a", Queued)
	}
}

// TestFlushAll: answers are Unknown, and right again after a pass.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "x", Config{Source: work, AddRows: 1})
	work.start("a", "b", "c")
	pass(t, tr)
	wantState(t, tr, "none", NotQueued)
	must(t, tr.run.Client, "FLUSHALL")
	for _, id := range []string{"a", "none"} {
		wantState(t, tr, id, Unknown)
	}
	redistest.Eventually(t, "a pass is over", func() bool {
		walkOne(t, tr)
		return state(t, tr, "none") == NotQueued
	})
	for _, id := range []string{"a", "b", "c"} {
		wantState(t, tr, id, Queued)
	}
}

// TestRestart: acknowledged identifiers are there after a crash, given an append-only
// file.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	work := &table{}
	tr := openOn(t, server.Client(t), "x", Config{Source: work})
	work.start("a")
	pass(t, tr)
	add(t, tr, "b")
	server.Kill()
	server.Restart()
	wantState(t, tr, "a", Queued)
	wantState(t, tr, "b", Queued)
	wantState(t, tr, "none", NotQueued)
}

// TestFullServer: finished identifiers are removed when nothing fits any more, however
// many there are, and asking goes on.
func TestFullServer(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "x", Config{Source: work})
	work.start("a")
	pass(t, tr)
	for i := range 200 {
		add(t, tr, fmt.Sprint(i))
	}
	full(t, tr)
	wantError(t, tr.Add(t.Context(), "x", "y"), millrace.ErrFull)
	wantError(t, tr.Fill(t.Context(), nil), millrace.ErrFull)
	for range 6 {
		verifyOne(t, tr)
	}
	if diff := cmp.Diff([]string{"a"}, tracked(t, tr)); diff != "" {
		t.Errorf("tracked (-want +got):\n%s", diff)
	}
	if got, want := stats(t, tr).Counters.Removed, int64(200); got != want {
		t.Errorf("Removed = %d, want %d", got, want)
	}
	wantState(t, tr, "x", NotQueued)
	if n, err := tr.Delete(t.Context()); n != 2 || err != nil {
		t.Errorf("Delete = %d, %v, want 2 keys", n, err)
	}
	wantError(t, tr.Add(t.Context(), "x"), millrace.ErrFull)
	if n, err := do(t, tr.run.Client, "EXISTS", baseKey(tr.name), idsKey(baseKey(tr.name))).AsInt64(); n != 0 || err != nil {
		t.Errorf("%d keys, %v, want a refused Add to leave none", n, err)
	}
}

// TestCancelledCallsReturn pauses the server, so that only the context can end a
// call. The best of several tries must return within 50 ms of the cancel: a
// busy machine may delay some, but not all.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	tr := openOn(t, server.Client(t), "x", Config{Source: &table{}})
	add(t, tr, "x")
	server.Pause()
	defer server.Resume()
	for name, call := range map[string]func(context.Context) error{
		"Add":    func(ctx context.Context) error { return tr.Add(ctx, "x") },
		"Queued": func(ctx context.Context) error { _, err := tr.Queued(ctx, "x"); return err },
		"Stats":  func(ctx context.Context) error { _, err := tr.Stats(ctx); return err },
		"Fill":   func(ctx context.Context) error { return tr.Fill(ctx, nil) },
		"add":    func(ctx context.Context) error { _, err := tr.Jobs()[0].Slice(ctx); return err },
		"verify": func(ctx context.Context) error { _, err := tr.Jobs()[1].Slice(ctx); return err },
		"Delete": func(ctx context.Context) error { _, err := tr.Delete(ctx); return err },
	} {
		best := time.Hour
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var cancelled time.Time
			time.AfterFunc(5*time.Millisecond, func() {
				cancelled = time.Now()
				cancel()
			})
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", name, err)
			}
			best = min(best, time.Since(cancelled))
			cancel()
		}
		if best > 50*time.Millisecond {
			t.Errorf("%s returns %v after the cancel, more than 50 ms", name, best)
		}
	}
}

// TestForeignKeys: a key that is no tracker of this version is refused and left alone,
// save by Delete.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		command string // the base key is %K
		want    error
	}{
		"a text":            {"SET %K text", millrace.ErrBroken},
		"another hash":      {"HSET %K color red", millrace.ErrBroken},
		"another version":   {"HSET %K version 2", millrace.ErrVersion},
		"a text as a set":   {"SET %K:ids text", millrace.ErrBroken},
		"a list as the set": {"RPUSH %K:ids x", millrace.ErrBroken},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			tr := open(t, Config{Source: fixed{page: Page{IDs: []string{"a"}}}})
			base := baseKey(tr.name)
			if strings.Contains(c.command, ":ids") {
				must(t, tr.run.Client, "HSET", base, "version", "1", "life", "x")
			}
			words := strings.Fields(strings.ReplaceAll(c.command, "%K", base))
			must(t, tr.run.Client, words...)
			before, err := do(t, tr.run.Client, "DUMP", words[1]).ToString()
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, tr.Add(t.Context(), "x"), c.want)
			_, err = tr.Queued(t.Context(), "x")
			wantError(t, err, c.want)
			_, err = tr.Stats(t.Context())
			wantError(t, err, c.want)
			_, err = tr.Jobs()[0].Slice(t.Context())
			wantError(t, err, c.want)
			_, err = tr.Jobs()[1].Slice(t.Context())
			wantError(t, err, c.want)
			wantError(t, tr.Fill(t.Context(), nil), c.want)
			if after, err := do(t, tr.run.Client, "DUMP", words[1]).ToString(); err != nil || after != before {
				t.Errorf("%s was changed: %v", what, err)
			}
			if _, err := tr.Delete(t.Context()); err != nil {
				t.Errorf("Delete = %v", err)
			}
		})
	}
}
