package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// failingWorker makes the test binary a worker that ends by itself.
const failingWorker = "failing-worker"

func TestMain(m *testing.M) {
	if code, ok := chaos.Child(context.Background(), os.Args[1:], Scenes()); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == failingWorker {
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(3)
	}
	redistest.Main(m)
}

// short is long enough for one kill at least.
const short = time.Second

// config plays scenes for a short time on a server, or on miniredis without an address.
func config(t *testing.T, redis string, names ...string) chaos.Config {
	t.Helper()
	scenes, err := Choose(names...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := chaos.Config{Scenes: scenes, Redis: redis, Duration: short}
	cfg.Find = func() (string, error) { return "", redisproc.ErrNotFound }
	if redis != "" {
		binary := redistest.Binary(t)
		cfg.Find = func() (string, error) { return binary, nil }
	}
	return cfg
}

// play plays the scenes and returns the report and its text.
func play(t *testing.T, cfg chaos.Config) (chaos.Report, string) {
	t.Helper()
	var text strings.Builder
	cfg.Results = &text
	report, err := chaos.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if got := len([]rune(strings.TrimSuffix(line, "\n"))); got > 80 {
			t.Errorf("a line has %d characters, want at most 80: %s", got, line)
		}
	}
	return report, text.String()
}

func TestAllScenesHoldOnAGivenServerAndCleanUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	report, text := play(t, config(t, server.URL(), All))
	if !report.OK || len(report.Scenes) != len(Scenes()) {
		t.Errorf("not everything holds:\n%s", text)
	}
	for _, s := range report.Scenes {
		if s.Skipped != "" || len(s.Checks) == 0 {
			t.Errorf("scene %s was not played: %q", s.Name, s.Skipped)
		}
	}
	wantAsShown(t, report)
	wantEmpty(t, server.Client(t))
}

func TestFiveScenesPlayOnMiniredis(t *testing.T) {
	t.Parallel()
	report, text := play(t, config(t, "", All))
	if !report.OK {
		t.Errorf("not everything holds:\n%s", text)
	}
	var played []string
	for _, s := range report.Scenes {
		if s.Skipped == "" {
			played = append(played, s.Name)
		}
	}
	if diff := cmp.Diff([]string{"queue", "ick", "steal", "expiry", "scatter"}, played); diff != "" {
		t.Errorf("scenes that were played (-want +got):\n%s", diff)
	}
	if want := "Not played without a redis-server: lease, fleet, failover."; !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
		t.Errorf("the end does not say %q:\n%s", want, text)
	}
}

// Each check can fail: it does when the protection is taken away.
func TestChecksFailWithoutTheProtection(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for _, test := range []struct {
		scene, sabotage string
		checks          []string // that fail, at least one of them
	}{
		{"queue", oneTenant, []string{"quiet_have_their_turn", "slow_has_its_share"}},
		{"queue", skipMessage, []string{"all_handled"}},
		{"ick", skipDocument, []string{"nothing_forgotten"}},
		{"steal", collectNothing, []string{"all_collected"}},
		{"expiry", reapNothing, []string{"fields_counted"}},
		{"expiry", lateClock, []string{"nothing_after_its_deadline"}},
		{"lease", leasesExpire, []string{"leases_stay", "one_holder"}},
		{"scatter", plainCounters, []string{"sum_is_exact"}},
		{"fleet", ownTickets, []string{"one_holder"}},
		{"fleet", forgetPlaces, []string{"one_home"}},
		{"failover", noAgents, []string{"writes_go_on"}},
	} {
		t.Run(test.scene+"/"+test.sabotage, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			cfg := config(t, server.URL(), test.scene)
			cfg.Sabotage = test.sabotage
			report, text := play(t, cfg)
			failed := map[string]bool{}
			for _, c := range report.Scenes[0].Checks {
				failed[c.Name] = !c.OK
			}
			for _, check := range test.checks {
				if !failed[check] {
					t.Errorf("check %s does not fail:\n%s", check, text)
				}
			}
			if report.OK {
				t.Error("the report is OK")
			}
			wantEmpty(t, server.Client(t))
		})
	}
}

func TestCancelEndsEachSceneAndCleansUp(t *testing.T) {
	t.Parallel()
	for _, s := range Scenes() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			cfg := config(t, server.URL(), s.Name)
			cfg.Duration = time.Hour
			progress := &notes{}
			cfg.Progress, cfg.Live = progress, true
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("enough")
			ended := make(chan error, 1)
			go func() {
				_, err := chaos.Run(ctx, cfg)
				ended <- err
			}()
			redistest.Eventually(t, "the scene is under way", func() bool {
				if len(ended) > 0 {
					t.Fatalf("Run ended early: %v", <-ended)
				}
				return progress.has(s.Name)
			})
			cancel(stop)
			if err := <-ended; !errors.Is(err, stop) {
				t.Errorf("Run = %v, want %v", err, stop)
			}
			wantEmpty(t, server.Client(t))
		})
	}
}

func TestAWorkerThatEndsByItselfEndsTheScene(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for _, s := range Scenes() {
		if s.Work == nil {
			continue
		}
		cfg := config(t, server.URL(), s.Name)
		cfg.Duration = 10 * time.Millisecond
		cfg.Command = []string{os.Args[0], failingWorker}
		report, err := chaos.Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "out of paper") || report.OK {
			t.Errorf("%s: Run = %v, want the worker's last words", s.Name, err)
		}
	}
	wantEmpty(t, server.Client(t))
}

func TestUnknownScene(t *testing.T) {
	t.Parallel()
	if _, err := Choose("queue", "kew"); err == nil || !strings.Contains(err.Error(), `no scene "kew"; the scenes are queue, ick,`) {
		t.Errorf("Choose = %v, want the names of the scenes", err)
	}
}

// wantAsShown fails the test unless the report has the fields that docs/CLI.md shows.
func wantAsShown(t *testing.T, report chaos.Report) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "$ millrace demo all --json\n")
	shown, _, _ = strings.Cut(shown, "```")
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal([]byte(shown), &want), json.Unmarshal(text, &got)); err != nil {
		t.Fatal(err)
	}
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
	left, err := client.Do(context.Background(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(left) > 0 {
		t.Errorf("keys are left: %q, %v", left, err)
	}
}

// notes are progress that is read while it is written.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), text)
}
