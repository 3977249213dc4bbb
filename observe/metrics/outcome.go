package metrics

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	maxCodes = 64 // codes that become outcomes: about thirty of the library, and a program's own
	maxCode  = 40 // bytes of a code
)

// outcomes converts errors to values of a label, of which there are few whatever codes the
// handlers of a program return.
type outcomes struct {
	mu    sync.Mutex
	known map[string]bool
}

// of returns the outcome for an error.
func (o *outcomes) of(err error) string {
	if err == nil {
		return "ok"
	}
	err = retry.Bare(err)
	if code := millrace.Code(err); code != "" {
		return o.bounded(code)
	}
	word := retry.Word(err)
	switch {
	case errors.As(err, new(*loop.PanicError)):
		return "panic"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case word == "OOM":
		return millrace.ErrFull.Code
	case retry.Denied(err):
		return "no_permission"
	case word != "" && word != "ERR":
		return o.bounded(strings.ToLower(word))
	}
	return "error"
}

// bounded returns a valid code, or error if it is invalid or there are too many codes.
func (o *outcomes) bounded(code string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_"
	if len(code) > maxCode || strings.Trim(code, letters) != "" {
		return "error"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.known[code] {
		if len(o.known) >= maxCodes {
			return "error"
		}
		if o.known == nil {
			o.known = make(map[string]bool)
		}
		o.known[code] = true
	}
	return code
}
