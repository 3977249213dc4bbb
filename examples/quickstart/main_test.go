package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/millracetest"
)

// TestAcmeDoesNotWait shows how a program tests its handlers, and that the comment in main.go
// is true.
func TestAcmeDoesNotWait(t *testing.T) {
	t.Parallel()
	queue, err := fairqueue.New(millracetest.Redis(t), "webhooks", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "globex", Body: fmt.Appendf(nil, "event %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "acme", Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	got := millracetest.RunUntilEmpty(t, queue, func(context.Context, fairqueue.Message) error { return nil }, millracetest.RunConfig{})
	if at := slices.IndexFunc(got.Handled, func(m fairqueue.Message) bool { return m.Tenant == "acme" }); at < 0 || at > 1 || len(got.Handled) != 101 {
		t.Errorf("%d messages are handled, that of acme at %d, want 101 and 0 or 1", len(got.Handled), at)
	}
}
