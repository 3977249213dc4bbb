package millrace_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/millrace/millrace"
)

func TestError(t *testing.T) {
	t.Parallel()
	sentinel := &millrace.Error{Code: "stale", Message: "too late", Hint: "Try again."}
	twin := &millrace.Error{Code: "stale", Message: "too late"}
	err := fmt.Errorf("while committing: %w", sentinel.Wrap(io.EOF).Errorf("too late by %d", 3))

	if !errors.Is(err, sentinel) || !errors.Is(err, io.EOF) || !errors.Is(sentinel, sentinel) {
		t.Errorf("%v is not found as its sentinel and its cause", err)
	}
	if errors.Is(err, twin) || errors.Is(twin, sentinel) {
		t.Errorf("another package's sentinel with the same code is taken for ours")
	}
	if got, want := err.Error(), "while committing: too late by 3: EOF"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
	if got := millrace.Code(err); got != "stale" {
		t.Errorf("Code = %q, want stale", got)
	}
	if got := millrace.Hint(err); got != "Try again." {
		t.Errorf("Hint = %q, want the sentinel's", got)
	}
	outer := (&millrace.Error{Code: "outer", Message: "outer"}).Wrap(err)
	if millrace.Code(outer) != "outer" || millrace.Hint(outer) != "Try again." {
		t.Errorf("Code, Hint = %q, %q, want the outer code and the first hint", millrace.Code(outer), millrace.Hint(outer))
	}
	if millrace.Code(io.EOF) != "" || millrace.Hint(nil) != "" {
		t.Error("an error without code or hint has one")
	}
}

func TestProgressString(t *testing.T) {
	t.Parallel()
	for p, want := range map[millrace.Progress]string{
		millrace.Idle: "idle", millrace.Worked: "worked", millrace.More: "more", 9: "unknown",
	} {
		if got := p.String(); got != want {
			t.Errorf("%d = %q, want %q", p, got, want)
		}
	}
}
