package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/steal"
)

// often is a time between flushes of which many fit into a test.
const often = 5 * time.Millisecond

// recruits returns a recruiter of jobs that are drawn in turn, more or less, each
// with its slice.
func recruits(t *testing.T, slices map[string]func(context.Context) (millrace.Progress, error)) *steal.Recruiter {
	t.Helper()
	r := steal.New(steal.Config{})
	for name, slice := range slices {
		if err := r.Install(millrace.Job{Name: name, Slice: slice}, 1/float64(len(slices))); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Slices of every outcome.
func works(context.Context) (millrace.Progress, error)  { return millrace.Worked, nil }
func idles(context.Context) (millrace.Progress, error)  { return millrace.Idle, nil }
func fails(context.Context) (millrace.Progress, error)  { return millrace.Idle, errors.New("no") }
func panics(context.Context) (millrace.Progress, error) { panic("no") }
func lasts(ctx context.Context) (millrace.Progress, error) {
	<-ctx.Done()
	return millrace.Idle, ctx.Err()
}

// publish publishes a recruiter until stop is called, which waits for the end.
func publish(t *testing.T, r *steal.Recruiter, client rueidis.Client, cfg PublishConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Publish(ctx, r, client, cfg) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Publish = %v, want context.Canceled", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func readTotals(t *testing.T, client rueidis.Client) Totals {
	t.Helper()
	totals, err := ReadTotals(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

// sum adds up the recruiters' own counts.
func sum(recruiters ...*steal.Recruiter) map[string]steal.JobStats {
	all := map[string]steal.JobStats{}
	for _, r := range recruiters {
		for _, s := range r.Stats().Jobs {
			t := all[s.Name]
			t.Name = s.Name
			t.Worked += s.Worked
			t.Idle += s.Idle
			t.Aborted += s.Aborted
			t.Failed += s.Failed
			t.TimedOut += s.TimedOut
			t.Panicked += s.Panicked
			t.Busy += s.Busy
			t.Broken += s.Broken
			t.Rounds += s.Rounds
			if s.LastWorked.After(t.LastWorked) {
				t.LastWorked = s.LastWorked
			}
			all[s.Name] = t
		}
	}
	return all
}

// wantTotals checks that the totals equal the recruiters' own counts.
func wantTotals(t *testing.T, totals Totals, recruiters ...*steal.Recruiter) {
	t.Helper()
	got := map[string]steal.JobStats{}
	for _, job := range totals.Jobs {
		got[job.Name] = job
	}
	if diff := cmp.Diff(sum(recruiters...), got, cmpopts.EquateApproxTime(5*time.Second)); diff != "" {
		t.Errorf("totals (-recruiters +published):\n%s", diff)
	}
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	result := client.Do(t.Context(), client.B().Arbitrary(args...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", args, err)
	}
	return result
}

// text runs a command that answers with a text.
func text(t *testing.T, client rueidis.Client, args ...string) string {
	t.Helper()
	answer, err := do(t, client, args...).ToString()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return answer
}

// number runs a command that answers with a number.
func number(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := do(t, client, args...).AsInt64()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return n
}

func TestTotalsOfNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	if diff := cmp.Diff(Totals{}, readTotals(t, client)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if n := number(t, client, "DBSIZE"); n != 0 {
		t.Errorf("reading created %d keys", n)
	}
}

// TestTwoRecruiters publishes two with a job in common and every outcome between
// them. The totals never show more than was done, nor less than before.
func TestTwoRecruiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	both := []*steal.Recruiter{
		recruits(t, map[string]func(context.Context) (millrace.Progress, error){"both": works, "idle": idles, "slow": lasts}),
		recruits(t, map[string]func(context.Context) (millrace.Progress, error){"both": idles, "fails": fails, "panics": panics}),
	}
	stops := []func(){
		publish(t, both[0], server.Client(t), PublishConfig{Interval: often}),
		publish(t, both[1], server.Client(t), PublishConfig{Interval: often}),
	}
	var enlisting sync.WaitGroup
	for _, r := range both {
		for range 2 { // two slices of a job at once make one of them busy
			enlisting.Go(func() {
				for range 300 {
					r.Enlist(t.Context())
				}
			})
		}
	}
	finished := make(chan struct{})
	go func() { enlisting.Wait(); close(finished) }()
	before := map[string]int64{}
	for looking := true; looking; {
		select {
		case <-finished:
			looking = false
		default:
		}
		totals, done := readTotals(t, client), sum(both...)
		for _, job := range totals.Jobs {
			switch {
			case job.Recruited() != job.Worked+job.Idle+job.Aborted:
				t.Fatalf("%+v does not add up", job)
			case job.Recruited() < before[job.Name] || job.Recruited() > done[job.Name].Recruited():
				t.Fatalf("%s: recruited %d, after %d, of %d", job.Name, job.Recruited(), before[job.Name], done[job.Name].Recruited())
			}
			before[job.Name] = job.Recruited()
		}
	}
	redistest.Eventually(t, "both are there, with all that they did", func() bool {
		totals := readTotals(t, client)
		var published, done int64
		for _, job := range totals.Jobs {
			published += job.Recruited()
		}
		for _, job := range sum(both...) {
			done += job.Recruited()
		}
		return totals.Processes == 2 && published == done
	})
	wantTotals(t, readTotals(t, client), both...)
	for i, stop := range stops {
		stop()
		if got, want := readTotals(t, client).Processes, 1-i; got != want {
			t.Errorf("processes after the end of %d = %d, want %d", i+1, got, want)
		}
	}
	for name, job := range sum(both...) {
		t.Logf("%s: %+v", name, job)
	}
}

// TestLastFlush: counts since the flush at the start are published when the
// context ends.
func TestLastFlush(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	r := recruits(t, map[string]func(context.Context) (millrace.Progress, error){"a": works})
	stop := publish(t, r, client, PublishConfig{})
	redistest.Eventually(t, "the process is there", func() bool { return readTotals(t, client).Processes == 1 })
	r.Enlist(t.Context())
	stop()
	totals := readTotals(t, client)
	wantTotals(t, totals, r)
	if totals.Processes != 0 {
		t.Errorf("processes = %d, want none that has ended", totals.Processes)
	}
}

// TestProcessesCountWhileTheyFlush: one that was killed counts until its time is
// over, and the next flush of another one forgets it. However many there are, 10,000
// are remembered.
func TestProcessesCountWhileTheyFlush(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	r := recruits(t, map[string]func(context.Context) (millrace.Progress, error){"a": works})
	flush := func(p *publisher) {
		t.Helper()
		if err := p.flush(t.Context(), minTTL); err != nil {
			t.Fatal(err)
		}
	}
	wantProcesses := func(running, remembered int64) {
		t.Helper()
		if got := readTotals(t, client).Processes; got != int(running) {
			t.Errorf("processes = %d, want %d", got, running)
		}
		if got := number(t, client, "ZCARD", baseKey+":processes") - 1; got != remembered { // less the placeholder
			t.Errorf("processes that are remembered = %d, want %d", got, remembered)
		}
	}
	killed, other := newPublisher(r, client, slog.New(slog.DiscardHandler)), newPublisher(r, client, slog.New(slog.DiscardHandler))
	flush(killed)
	flush(killed)
	flush(other)
	wantProcesses(2, 2)
	until := time.UnixMilli(number(t, client, "ZSCORE", baseKey+":processes", killed.process))
	if left := time.Until(until); left > minTTL || left < minTTL/2 {
		t.Errorf("a process counts for another %v, want %v after its flush", left, minTTL)
	}
	do(t, client, "ZADD", baseKey+":processes", fmt.Sprint(time.Now().Add(-time.Second).UnixMilli()), killed.process)
	wantProcesses(1, 2)
	flush(other)
	wantProcesses(1, 1)
	do(t, client, "EVAL", "for i = 1, 10100 do redis.call('ZADD', KEYS[1], ARGV[1], i) end", "1", baseKey+":processes",
		fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()))
	flush(other)
	wantProcesses(10_000, 10_000)
}

// TestJobsAreBounded: the totals have 100 jobs, with names of a bounded length, and
// the log names others once each.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	jobs := map[string]func(context.Context) (millrace.Progress, error){}
	for i := range maxJobs - 1 {
		jobs[fmt.Sprintf("old%02d", i)] = works
	}
	first := recruits(t, jobs)
	second := recruits(t, map[string]func(context.Context) (millrace.Progress, error){
		"new1": works, "new2": works, strings.Repeat("n", maxName+1): works,
	})
	third := recruits(t, map[string]func(context.Context) (millrace.Progress, error){"old00": works})
	for _, r := range []*steal.Recruiter{first, second, third} {
		p := newPublisher(r, client, logger)
		for range 3 {
			for ran := false; !ran; { // each job runs
				r.Enlist(t.Context())
				ran = true
				for _, s := range r.Stats().Jobs {
					ran = ran && s.Worked > 0
				}
			}
			if err := p.flush(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	totals := readTotals(t, client)
	if got := len(totals.Jobs); got != maxJobs {
		t.Errorf("jobs = %d, want %d", got, maxJobs)
	}
	var recruited, want int64
	for _, job := range totals.Jobs {
		if strings.HasPrefix(job.Name, "old") {
			recruited += job.Recruited()
		}
	}
	for _, job := range sum(first, third) {
		want += job.Recruited()
	}
	if recruited != want {
		t.Errorf("recruited for the jobs that there is a place for = %d, want %d", recruited, want)
	}
	if got := strings.Count(logged.String(), "no place"); got != 2 {
		t.Errorf("log = %s\nwant one line for each of two jobs", logged.String())
	}
	var crowd []string // of one recruiter with more jobs than there may be
	jobs["one"], jobs["two"], jobs["three"] = works, works, works
	p := newPublisher(recruits(t, jobs), client, slog.New(slog.DiscardHandler))
	for range 10_000 {
		p.recruiter.Enlist(t.Context())
	}
	for _, g := range p.growth(t.Context()) {
		crowd = append(crowd, g.now.Name)
	}
	if len(crowd) != maxJobs {
		t.Errorf("a flush has %d jobs, want %d", len(crowd), maxJobs)
	}
}
