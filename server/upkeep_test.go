package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/server"
)

// TestKeptAnswersAreReaped: the service removes expired answers to requests with an
// Idempotency-Key by itself, also when no such request comes any more. Else its pages ask an
// operator for upkeep that no operator can install.
func TestKeptAnswersAreReaped(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	answers, err := pinned.Open(t.Context(), client, "http", pinned.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := answers.Set(t.Context(), fmt.Sprint(i), []byte("x"), time.Millisecond, pinned.SetConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.New(server.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() { stop(); <-ran }()
	redistest.Eventually(t, "the service runs the job by itself", func() bool {
		for range 10 {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/queues", nil)) // lends upkeep its goroutine
		}
		return s.Recruited("pinned.reap:http") > 0
	})

	// The service gives a slice 25 ms, which a busy machine may exceed. Here it has longer.
	for _, job := range s.OwnJobs() {
		if _, err := job.Slice(ctx); err != nil {
			t.Error(err)
		}
	}
	if stats, err := answers.Stats(ctx); err != nil || stats.Overdue != 0 {
		t.Errorf("after the job %d answers are overdue, error = %v", stats.Overdue, err)
	}
}
