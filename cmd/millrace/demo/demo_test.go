package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

// short is long enough for one kill at least.
const short = 2 * killBefore

// testConfig is a short demo with children that are the test binary.
func testConfig(redis string) Config {
	return Config{Redis: redis, Duration: short, child: self(childArgument)}
}

func TestRunOnAGivenServerHoldsAndCleansUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	report, err := Run(t.Context(), testConfig(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, report)
	if got, want := report.Server, server.URL(); got != want {
		t.Errorf("server = %q, want %q", got, want)
	}
	wantEmpty(t, server.Client(t))
}

func TestRunOnMiniredisHolds(t *testing.T) {
	t.Parallel()
	cfg := testConfig("")
	cfg.embedded = connect.EmbeddedConfig{Find: func() (string, error) { return "", redisproc.ErrNotFound }}
	var progress strings.Builder
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, report)
	for _, want := range []string{"No redis-server on PATH", "NOTHING SURVIVES"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, progress.String())
		}
	}
}

func TestRunOnItsOwnServerHolds(t *testing.T) {
	t.Parallel()
	binary := redistest.Binary(t)
	cfg := testConfig("")
	cfg.embedded = connect.EmbeddedConfig{Find: func() (string, error) { return binary, nil }}
	var progress strings.Builder
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, report)
	for _, want := range []string{"Started a private", "NOTHING SURVIVES"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, progress.String())
		}
	}
}

// The checks can fail: consumers that leave work out are found out.
func TestForgottenDocumentsAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		consumer string
		failure  string
	}{
		{skipOne, skipped + " was changed to version"},
		{skipAll, "more documents"},
	} {
		t.Run(test.consumer, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			cfg := testConfig(server.URL())
			cfg.child = self(test.consumer)
			report, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK || report.Scenes[0].OK {
				t.Errorf("report is OK: %+v", report)
			}
			for _, c := range report.Scenes[0].Checks {
				if got, want := c.OK, c.Name != "nothing_forgotten"; got != want {
					t.Errorf("check %s = %v, want %v: %s", c.Name, got, want, c.Sentence)
				}
			}
			failures := report.Scenes[0].Failures
			if len(failures) == 0 || !strings.Contains(failures[len(failures)-1], test.failure) {
				t.Errorf("failures = %q, want one that says %q", failures, test.failure)
			}
			wantEmpty(t, server.Client(t))
		})
	}
}

func TestCancelEndsTheDemoAndCleansUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	cfg := testConfig(server.URL())
	cfg.Duration = time.Hour

	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, cfg)
		ended <- err
	}()
	redistest.Eventually(t, "a document is processed", func() bool {
		if len(ended) > 0 {
			t.Fatalf("Run ended early: %v", <-ended)
		}
		return len(keys(t, client, "{demo-*}:processed")) > 0
	})
	cancel(stop)
	begin := time.Now()
	if err := <-ended; !errors.Is(err, stop) {
		t.Errorf("Run = %v, want %v", err, stop)
	}
	if took := time.Since(begin); took > 2*dismissal {
		t.Errorf("Run went on for %s after the cancel", took)
	}
	wantEmpty(t, client)
}

func TestAChildThatEndsByItselfEndsTheDemo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL())
	cfg.child = self(fail)
	report, err := Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "out of paper") {
		t.Errorf("Run = %v, want the child's last words", err)
	}
	if report.OK {
		t.Error("report is OK")
	}
	wantEmpty(t, server.Client(t))
}

func TestRunWithoutAServer(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), testConfig("unix://"+t.TempDir()+"/none.sock"))
	if !errors.Is(err, connect.ErrConnect) {
		t.Errorf("Run = %v, want %v", err, connect.ErrConnect)
	}
}

func TestPublicHidesSecrets(t *testing.T) {
	t.Parallel()
	got := public("redis://me:secret@example.org:6379/2?password=secret")
	if want := "redis://example.org:6379/2"; got != want {
		t.Errorf("public = %q, want %q", got, want)
	}
}

// wantHeld fails the test unless every check holds, and the figures are of a
// demo that took place.
func wantHeld(t *testing.T, report Report) {
	t.Helper()
	if !report.OK {
		var table strings.Builder
		if err := report.Table(&table); err != nil {
			t.Error(err)
		}
		t.Fatalf("not everything held:\n%s", table.String())
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Scenes []struct {
			Name      string
			OK        bool
			Documents int
			Changes   int
			New       int
			Folded    int
			Batches   int
			Processed int
			Kills     int
			Age       int `json:"greatest_age_ms"`
			Failures  []string
		}
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.Scenes) != 1 {
		t.Fatalf("%d scenes, want 1: %s", len(seen.Scenes), text)
	}
	s := seen.Scenes[0]
	if s.Name != "ick" || !s.OK || s.Failures == nil ||
		s.Documents == 0 || s.Batches == 0 || s.Processed < s.Documents || s.Kills == 0 || s.Age == 0 ||
		s.New+s.Folded != s.Changes {
		t.Errorf("the figures cannot be true: %s", text)
	}
}

// wantEmpty fails the test unless the server holds nothing.
func wantEmpty(t *testing.T, client rueidis.Client) {
	t.Helper()
	if left := keys(t, client, "*"); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
	}
}

func keys(t *testing.T, client rueidis.Client, pattern string) []string {
	t.Helper()
	found, err := client.Do(context.Background(), client.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	if err != nil {
		t.Fatal(fmt.Errorf("KEYS %s: %w", pattern, err))
	}
	return found
}
