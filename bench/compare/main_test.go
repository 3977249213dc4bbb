package main

import (
	"context"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := child(text); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	redistest.Main(m)
}

// TestSystemsAreMeasured keeps the systems that need neither node nor PostgreSQL from rotting.
func TestSystemsAreMeasured(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	r := newResults()
	o := options{only: []string{"millrace", "stream", "asynq", "throughput"}, rounds: 1, scale: 0.01, progress: io.Discard}
	if err := measureAll(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"millrace", "stream", "asynq"} {
		f := r.Figures["throughput"][name]
		for _, figure := range []string{"write_per_s", "drain_per_s", "both_per_s"} {
			if f[figure] <= 0 {
				t.Errorf("%s: %s is %v, want more than 0", name, figure, f[figure])
			}
		}
		if f["doubled"] != 0 {
			t.Errorf("%s: %v messages were handled twice, and nothing crashed", name, f["doubled"])
		}
	}
}

// TestCostsAreMeasured keeps the measurements of CPU time from rotting.
func TestCostsAreMeasured(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	r := newResults()
	measures := []string{"processes-aof", "one-process", "steady"}
	systems := []string{"millrace", "millrace-calls", "stream", "asynq-default", "replicate"}
	o := options{only: slices.Concat(measures, systems), rounds: 1, scale: 0.01, progress: io.Discard}
	if err := measureAll(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(replicateFolder) == "" {
		if got := r.Missing["replicate"]; !strings.Contains(got, replicateFolder) {
			t.Errorf("Replicate's scripts are missing because of %q, want the name of %s", got, replicateFolder)
		}
		systems = systems[:len(systems)-1]
	}
	for _, m := range measures {
		if r.Dates[m] == "" {
			t.Errorf("%s has no date", m)
		}
		for _, system := range systems {
			for _, figure := range []string{"server_us", "per_s"} {
				if got := r.Figures[m][system][figure]; got <= 0 {
					t.Errorf("%s, %s: %s is %v, want more than 0", m, system, figure, got)
				}
			}
		}
	}
	page := r.tables()
	for _, want := range []string{"| Millrace, `Write`, `Read`, `Ack` |", " us |", "a writer sends 250 messages a second"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// TestCostsOfMoreAreMeasured keeps those from rotting that have one thing more. cost-long takes too long for a test.
func TestCostsOfMoreAreMeasured(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	r := newResults()
	measures := []string{"cost-blocked", "cost-flight", "cost-rate", "cost-streams", "cost-replica", "cost-file"}
	fiveProcesses := options{only: measures, rounds: 1, scale: 0.1, progress: io.Discard}
	if err := measureAll(t.Context(), fiveProcesses, r); err != nil {
		t.Fatal(err)
	}
	for _, m := range measures {
		figure := "server_us"
		if m == "cost-file" {
			figure = "file_bytes"
		}
		for _, system := range []string{"millrace", "asynq-default"} {
			if got := r.Figures[m][system][figure]; got <= 0 {
				t.Errorf("%s, %s: %s is %v, want more than 0", m, system, figure, got)
			}
		}
	}
	if page := r.tables(); !strings.Contains(page, "| bytes of append-only file |") {
		t.Errorf("the page has no column for the append-only file:\n%s", page)
	}
}

// TestInstructionsAreCounted: a message costs less in a call of 100 than alone.
func TestInstructionsAreCounted(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	if why := missingCallgrind(); why != "" {
		t.Skip(why)
	}
	r := newResults()
	o := options{only: []string{"stream", "asynq-default", "instructions"}, rounds: 1, scale: 0.01, progress: io.Discard}
	if err := measureAll(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	stream, asynq := r.Figures["instructions"]["stream"], r.Figures["instructions"]["asynq-default"]
	if alone, shared := stream["sum_1"], stream["sum_100"]; shared <= 0 || alone <= shared {
		t.Errorf("a stream's message costs %v instructions alone, %v in calls of 100, want more alone", alone, shared)
	}
	if got, want := asynq["sum_1"], asynq["write_1"]+asynq["work_1"]; asynq["work_1"] <= 0 || math.Abs(got/want-1) > 0.01 {
		t.Errorf("a task costs %v instructions, want the sum of %v", got, asynq)
	}
}

// TestMissingCallgrind: without valgrind the measurement says that it is skipped, and the others go on.
func TestMissingCallgrind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var progress strings.Builder
	if err := measureAll(t.Context(), options{only: []string{"instructions"}, rounds: 1, progress: &progress}, newResults()); err != nil {
		t.Fatal(err)
	}
	if want := "instructions: skipped: there is no valgrind on PATH\n"; progress.String() != want {
		t.Errorf("the progress is %q, want %q", progress.String(), want)
	}
}

// TestMeter: costs are those of the messages between two moments.
func TestMeter(t *testing.T) {
	t.Parallel()
	start := time.Now()
	before := meter{at: start, messages: 100, server: time.Second, workers: 2 * time.Second}
	after := meter{at: start.Add(4 * time.Second), messages: 300, server: 1020 * time.Millisecond, workers: 2100 * time.Millisecond}
	want := figures{"server_us": 100, "workers_us": 500, "per_s": 50}
	if got := after.since(before); !maps.Equal(got, want) {
		t.Errorf("a message costs %v, want %v", got, want)
	}
	for stat, want := range map[string]time.Duration{
		"7 (redis) server) S 1 7 7 0 -1 4194560 9 8 7 6 250 50 3 2 20 0 6 0": 3 * time.Second,
		"7 (cut off) S 1 7": 0,
		"":                  0,
	} {
		if got := statTime(stat); got != want {
			t.Errorf("the CPU time in %q is %v, want %v", stat, got, want)
		}
	}
}

// TestKilledWorkerLosesNothing runs a measurement with a real SIGKILL.
func TestKilledWorkerLosesNothing(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	base := job{Concurrency: 10, Tenants: 10, VisibilityMs: 1000}
	s, err := open(ctx, millracePeer, base, durable)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	f, err := kill(ctx, s, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if f["lost"] != 0 || f["recovered_s"] <= 0 {
		t.Errorf("after a SIGKILL: %v, want nothing lost and some time", f)
	}
}

func TestTallyCountsMessagesAndRepeats(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var notes []byte
	for _, r := range []record{
		{Number: 6, At: at(0), End: at(1)}, // before the first that counts
		{Number: 7, At: at(2)},
		{Number: 8, At: at(1), End: at(2)},
		{Number: 8, At: at(4), End: at(5)},
		{Number: 9, At: at(3), End: at(4)},
	} {
		notes = r.append(notes)
	}
	path := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(path, append(notes, 1, 2, 3), 0o600); err != nil { // the last was cut off by a kill
		t.Fatal(err)
	}
	got, err := tallyOf(path, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.first) != 3 || len(got.times) != 2 || got.doubled() != 1 {
		t.Errorf("%d began, %d ended, %d doubled; want 3, 2, 1", len(got.first), len(got.times), got.doubled())
	}
	if took := got.end.Sub(earliest(got.first)).Round(time.Second); took != 4*time.Second {
		t.Errorf("from the first begin to the last end: %v, want 4 s", took)
	}
	if n, err := count(path); n != 5 || err != nil {
		t.Errorf("%d records (%v), want 5", n, err)
	}
}

func TestRoundsAreMerged(t *testing.T) {
	t.Parallel()
	rounds := []figures{{"x": 5}, {"x": 1}, {"x": 3}}
	if got := merge(rounds)["x"]; got != 3 {
		t.Errorf("the median is %v, want 3", got)
	}
}
