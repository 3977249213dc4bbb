package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

func Example() {
	server := miniredis.NewMiniRedis() // a program has a Redis anyway
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	recruiter := steal.New(steal.Config{})
	if err := upkeep.Install(recruiter, client); err != nil {
		log.Fatal(err)
	}
	// Structures give their idle moments away...
	dirty, err := ick.New(client, "documents", ick.Config{Enlister: recruiter})
	if err != nil {
		log.Fatal(err)
	}
	_, err = dirty.Reserve(context.Background(), 10)
	// ...and recruiter.Run(ctx), in a goroutine, is the floor when there are none.

	for _, job := range recruiter.Stats().Jobs {
		fmt.Println(job.Name)
	}
	fmt.Println(err)
	// Output:
	// ick.retry
	// ick.tidy
	// lease.reap
	// fairqueue.tend
	// expiry.repair
	// pinned.repair
	// registry.tidy
	// <nil>
}

func ExamplePublish() {
	server := miniredis.NewMiniRedis() // the one that all processes share
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	recruiter := steal.New(steal.Config{})
	due := 2
	err = recruiter.Install(millrace.Job{
		Name: "sessions.sweep",
		Slice: func(context.Context) (millrace.Progress, error) {
			if due == 0 {
				return millrace.Idle, nil
			}
			due--
			return millrace.Worked, nil
		},
	}, 1) // a program would say 0.003
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- upkeep.Publish(ctx, recruiter, client, upkeep.PublishConfig{}) }()

	for range 5 {
		recruiter.Enlist(ctx)
	}
	stop()
	fmt.Println(<-done) // the last counts are there when it returns

	totals, err := upkeep.ReadTotals(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range totals.Jobs {
		fmt.Println(job.Name, "recruited", job.Recruited(), "worked", job.Worked, "idle", job.Idle, "aborted", job.Aborted)
	}
	// Output:
	// context canceled
	// sessions.sweep recruited 5 worked 2 idle 3 aborted 0
}

// TestFloorRunsAllJobs: without a single moment given away, each job runs and
// finds its way round a real server.
func TestFloorRunsAllJobs(t *testing.T) {
	t.Parallel()
	recruiter := steal.New(steal.Config{Floor: 1})
	if err := upkeep.Install(recruiter, redistest.Shared(t).Client(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- recruiter.Run(ctx) }()
	redistest.Eventually(t, "each job has run without an error", func() bool {
		for _, job := range recruiter.Stats().Jobs {
			if job.Idle+job.Worked == 0 {
				return false
			}
		}
		return true
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	if err := recruiter.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRedisDownAndBack: while the server is gone, recruits fail and are then left
// alone; when it is back, so is the upkeep. No caller gets an error.
func TestRedisDownAndBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	recruiter := steal.New(steal.Config{})
	if err := upkeep.Install(recruiter, server.Client(t)); err != nil {
		t.Fatal(err)
	}
	sum := func() (ended, aborted, left int64) {
		for _, job := range recruiter.Stats().Jobs {
			ended += job.Idle + job.Worked
			aborted += job.Aborted
			left += job.Broken
			if job.Drawn+job.Floored != job.Idle+job.Worked+job.Aborted {
				t.Errorf("%+v does not add up", job)
			}
		}
		return ended, aborted, left
	}
	offer := func(what string, until func() bool) {
		t.Helper()
		redistest.Eventually(t, what, func() bool {
			for range 1000 {
				recruiter.Enlist(t.Context())
			}
			return until()
		})
	}
	offer("jobs run", func() bool { ended, _, _ := sum(); return ended > 0 })
	server.Kill()
	offer("jobs fail and are left alone", func() bool { _, aborted, left := sum(); return aborted > left && left > 0 })
	server.Restart()
	before, _, _ := sum()
	offer("jobs run again", func() bool { ended, _, _ := sum(); return ended > before })
	if err := recruiter.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInstallTwiceIsRefused(t *testing.T) {
	t.Parallel()
	recruiter := steal.New(steal.Config{})
	client := redistest.Shared(t).Client(t)
	if err := upkeep.Install(recruiter, client); err != nil {
		t.Fatal(err)
	}
	if err := upkeep.Install(recruiter, client); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("Install again = %v, want ErrInstalled", err)
	}
}
