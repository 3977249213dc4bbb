package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

// short is long enough for one kill at least.
const short = 2 * killBefore

// nothingFound is a machine without a Redis server.
var nothingFound = connect.EmbeddedConfig{Find: func() (string, error) { return "", redisproc.ErrNotFound }}

// found is a machine with the server that the tests run.
func found(t *testing.T) connect.EmbeddedConfig {
	t.Helper()
	binary := redistest.Binary(t)
	return connect.EmbeddedConfig{Find: func() (string, error) { return binary, nil }}
}

// testConfig is a short demo with children that are the test binary. With
// scenes it plays only these.
func testConfig(redis string, only ...scene) Config {
	return Config{Redis: redis, Duration: short, scenes: only, child: self(childArgument)}
}

func TestRunOnAGivenServerHoldsAndCleansUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL())
	cfg.embedded = found(t)
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, report, false)
	wantAsShown(t, report)
	if got, want := report.Server, server.URL(); got != want {
		t.Errorf("server = %q, want %q", got, want)
	}
	wantEmpty(t, server.Client(t))
}

func TestRunOnMiniredisHolds(t *testing.T) {
	t.Parallel()
	cfg := testConfig("")
	cfg.embedded = nothingFound
	var progress strings.Builder
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, report, true)
	for _, want := range []string{"No redis-server on PATH", "NOTHING SURVIVES", "skipped: it makes 5,000 reads", "skipped: it fills the memory", "skipped: it floods a queue", "skipped: it starts a fleet", "skipped: it kills servers"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, progress.String())
		}
	}
}

func TestRunOnItsOwnServerHolds(t *testing.T) {
	t.Parallel()
	cfg := testConfig("", ickScene())
	cfg.embedded = found(t)
	var progress strings.Builder
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK || len(report.Scenes) != 1 {
		t.Errorf("report = %+v, want one scene that holds", report)
	}
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
			cfg := testConfig(server.URL(), ickScene())
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
	for _, test := range []struct {
		scene scene
		key   string // is there when the scene is under way
		field string // that it has then, if it is a hash
	}{
		{ickScene(), "{demo-*}:processed", ""},
		{stealScene(), "{demo-*}:signs", ""},
		{expiryScene(), "mr:hash:{demo-*/0}:t:*", ""},
		{queueScene(), "mr:queue:{demo-*}", "reclaimed"}, // a worker was killed
	} {
		t.Run(test.scene.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			client := server.Client(t)
			cfg := testConfig(server.URL(), test.scene)
			cfg.Duration = time.Hour
			wantEnd(t, cfg, func() bool {
				return slices.ContainsFunc(keys(t, client, test.key), func(key string) bool {
					has, err := true, error(nil)
					if test.field != "" {
						has, err = client.Do(t.Context(), client.B().Hexists().Key(key).Field(test.field).Build()).AsBool()
					}
					return has && err == nil
				})
			})
			wantEmpty(t, client)
		})
	}
}

// wantEnd plays a demo, cancels it when it is under way, and fails the test unless it
// then ends.
func wantEnd(t *testing.T, cfg Config, underWay func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, cfg)
		ended <- err
	}()
	redistest.Eventually(t, "the scene is under way", func() bool {
		if len(ended) > 0 {
			t.Fatalf("Run ended early: %v", <-ended)
		}
		return underWay()
	})
	cancel(stop)
	if err := <-ended; !errors.Is(err, stop) { // it is there before the hour that it had
		t.Errorf("Run = %v, want %v", err, stop)
	}
}

func TestAChildThatEndsByItselfEndsTheDemo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for _, s := range scenes() {
		if s.child == nil {
			continue
		}
		cfg := testConfig(server.URL(), s)
		cfg.Duration = 10 * time.Millisecond
		cfg.child = self(fail)
		cfg.embedded = found(t)
		report, err := Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "out of paper") {
			t.Errorf("%s: Run = %v, want the child's last words", s.name, err)
		}
		if report.OK {
			t.Errorf("%s: report is OK", s.name)
		}
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
// demo that took place, but for what is skipped on an imitation of a server.
func wantHeld(t *testing.T, report Report, mimic bool) {
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
			Name     string
			OK       bool
			Skipped  string
			Checks   []Check
			Failures []string

			Documents int
			Changes   int
			New       int
			Folded    int
			Batches   int
			Processed int
			Kills     int
			Age       int `json:"greatest_age_ms"`

			Requests  int
			Hits      int
			Recruited int
			Worked    int
			Idle      int
			Aborted   int
			Sessions  int
			Collected int
			Time      int `json:"request_p99_us"`

			Reads   int
			Over    int `json:"reads_after_deadline"`
			Expired int
			Reaped  int
			Stay    int `json:"overdue_p99_ms"`

			Evicted     int
			LocksLeft   int `json:"locks_left"`
			LocksTwice  int `json:"locks_taken_twice"`
			LeasesLeft  int `json:"leases_left"`
			LeasesTwice int `json:"leases_taken_twice"`

			Messages  int
			Flood     int
			Slow      int
			Quiet     int
			Ahead     int `json:"line_quiet_ahead_most"`
			SlowHands int `json:"slow_handlers"`

			Partitions int
			TagsAfter  []int `json:"tags_after"`
			RatesAfter []int `json:"commands_per_second_after"`
			Marks      int
			Tickets    int
			Adding     int `json:"adding_ms"`

			Events   int
			ByServer []int `json:"by_server"`
			Partial  int
			Read     int

			Confirmed       []int `json:"confirmed_writes"`
			ConfirmedPauses []int `json:"confirmed_pause_ms"`
			ConfirmedLost   []int `json:"confirmed_lost"`
			Plain           []int `json:"plain_writes"`
			PlainPauses     []int `json:"plain_pause_ms"`
			PlainWindow     []int `json:"plain_window"`
			PlainLost       []int `json:"plain_lost"`
		}
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		t.Fatal(err)
	}
	if got, want := len(seen.Scenes), len(scenes()); got != want {
		t.Fatalf("%d scenes, want %d: %s", got, want, text)
	}
	for i, s := range seen.Scenes {
		sound := s.Name == scenes()[i].name && s.OK && s.Checks != nil && s.Failures != nil
		switch s.Name {
		case "ick":
			sound = sound && s.Documents > 0 && s.Batches > 0 && s.Processed >= s.Documents && s.Kills > 0 && s.Age > 0 &&
				s.New+s.Folded == s.Changes
		case "steal":
			sound = sound && s.Requests > s.Hits && s.Hits > 0 && s.Recruited > 0 && s.Time > 0 &&
				s.Recruited == s.Worked+s.Idle+s.Aborted && s.Sessions > 0 && s.Collected == s.Sessions
		case "expiry":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Reads > s.Hits && s.Hits > 0 && s.Over > 0 && s.Expired >= s.Reaped && s.Reaped > 0 && s.Stay > 0 &&
					s.Recruited == s.Worked+s.Idle+s.Aborted)
		case "lease":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Evicted > 0 && s.LocksLeft+s.LocksTwice >= holdings && s.LeasesLeft == holdings && s.LeasesTwice == 0)
		case "queue":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Messages == s.Flood+s.Slow+s.Quiet && s.Flood > 0 && s.Slow > 0 && s.Quiet > 0 && s.Ahead > 0 &&
					s.SlowHands > 0 && s.Kills > 0)
		case "scatter":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Events > 0 && s.Read >= s.Events && s.Partial < s.Read && len(s.ByServer) == shards && slices.Min(s.ByServer) > 0)
		case "fleet":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Partitions == fleetPartitions+1 && s.Marks > 0 && s.Messages > 0 && s.Reads > 0 && s.Tickets > 0 && s.Adding > 0 &&
					len(s.TagsAfter) == s.Partitions && slices.Min(s.TagsAfter) > 0 &&
					len(s.RatesAfter) == s.Partitions && slices.Min(s.RatesAfter) > 0)
		case "failover":
			sound = sound && mimic == (s.Skipped != "") &&
				(mimic || s.Partitions == 2 && slices.Min(s.Confirmed) > 0 && slices.Min(s.Plain) > 0 &&
					slices.Min(s.ConfirmedPauses) > 0 && slices.Min(s.PlainPauses) > 0 && slices.Max(s.ConfirmedLost) == 0 &&
					s.PlainLost[0] <= s.PlainWindow[0] && s.PlainLost[1] <= s.PlainWindow[1])
		}
		if !sound {
			t.Errorf("the figures of scene %s cannot be true: %s", s.Name, text)
		}
	}
}

// wantAsShown fails the test unless the report has the fields that docs/CLI.md shows.
func wantAsShown(t *testing.T, report Report) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/CLI.md")
	must(t, err)
	_, shown, _ := strings.Cut(string(page), "$ millrace demo --json\n")
	shown, _, _ = strings.Cut(shown, "```")
	text, err := json.Marshal(report)
	must(t, err)
	var want, got any
	must(t, json.Unmarshal([]byte(shown), &want))
	must(t, json.Unmarshal(text, &got))
	if diff := cmp.Diff(shape(want), shape(got)); diff != "" {
		t.Errorf("the report is not as on the page (-page +report):\n%s", diff)
	}
}

// shape puts their types in the place of values.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		fields := map[string]any{}
		for name, value := range v {
			fields[name] = shape(value)
		}
		return fields
	case []any:
		var list []any
		for _, value := range v {
			list = append(list, shape(value))
		}
		return list
	}
	return fmt.Sprintf("%T", v)
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
