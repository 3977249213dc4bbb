package steal_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/steal"
)

func Example() {
	ctx := context.Background()
	due := []string{"a", "b", "c"}
	sweep := millrace.Job{
		Name: "sessions.sweep",
		Slice: func(context.Context) (millrace.Progress, error) {
			if len(due) == 0 {
				return millrace.Idle, nil
			}
			fmt.Println("sweep", due[0])
			due = due[1:]
			return millrace.More, nil // there may be more
		},
	}

	recruiter := steal.New(steal.Config{})
	if err := recruiter.Install(sweep, 1); err != nil { // a program would say 0.003
		log.Fatal(err)
	}

	// Wherever work ended early: a hit, an empty read.
	recruiter.Enlist(ctx)
	recruiter.Enlist(ctx)

	if err := recruiter.Close(ctx); err != nil {
		log.Fatal(err)
	}
	s := recruiter.Stats().Jobs[0]
	fmt.Println("recruited", s.Recruited(), "worked", s.Worked, "idle", s.Idle, "slices", s.Rounds)
	// Output:
	// sweep a
	// sweep b
	// sweep c
	// recruited 2 worked 1 idle 1 slices 5
}

// A slice that fails never troubles the caller; the counts tell.
func ExampleRecruiter_Enlist() {
	ctx := context.Background()
	recruiter := steal.New(steal.Config{})
	err := recruiter.Install(millrace.Job{
		Name:  "sessions.sweep",
		Slice: func(context.Context) (millrace.Progress, error) { panic("a bug") },
	}, 1)
	if err != nil {
		log.Fatal(err)
	}
	for range 7 {
		recruiter.Enlist(ctx)
	}
	job := recruiter.Stats().Jobs[0]
	fmt.Println("panics", job.Panicked, "then left alone", job.Broken)
	// Output:
	// panics 5 then left alone 2
}

// The slice runs when the page has gone out, once for all hits of a request.
func ExampleMiddleware() {
	recruiter := steal.New(steal.Config{})
	err := recruiter.Install(millrace.Job{
		Name: "sessions.sweep",
		Slice: func(context.Context) (millrace.Progress, error) {
			fmt.Println("sweep")
			return millrace.Worked, nil
		},
	}, 1)
	if err != nil {
		log.Fatal(err)
	}
	page := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		for range 3 { // three hits in a cache
			recruiter.Enlist(req.Context())
		}
		fmt.Println("page")
	})
	handler := steal.Middleware(recruiter)(page)

	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if err := recruiter.Close(context.Background()); err != nil { // waits for the sweep
		log.Fatal(err)
	}
	// Output:
	// page
	// sweep
}
