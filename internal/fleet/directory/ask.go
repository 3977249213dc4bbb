package directory

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// hedgeDelay is how long ask waits for one server before it asks the next one as well.
const hedgeDelay = 100 * time.Millisecond

// ask asks the servers in turn, and returns the first answer and the index of its
// server. It asks the next one when one fails, or does not answer within hedgeDelay: a
// slow server's answer still counts, and a frozen one must not use up the caller's time.
func ask[T any](ctx context.Context, d *Redis, from int, call func(ctx context.Context, s *script.Runner) (T, error)) (value T, at int, err error) {
	type answer struct {
		value T
		at    int
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(d.servers))
	asked := 0
	next := func() {
		at := (from + asked) % len(d.servers)
		asked++
		go func() {
			value, err := call(ctx, d.servers[at])
			for errors.Is(err, context.Canceled) && ctx.Err() == nil {
				// The call that was opening the connection was cancelled.
				value, err = call(ctx, d.servers[at])
			}
			answers <- answer{value, at, err}
		}()
	}
	next()
	silence := time.NewTimer(hedgeDelay)
	defer silence.Stop()
	var failures []error
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.value, a.at, nil
			}
			failures = append(failures, own(ctx, a.err))
		case <-silence.C:
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() != nil:
			return value, 0, context.Cause(ctx)
		case len(failures) == len(d.servers):
			return value, 0, gist(failures)
		case asked < len(d.servers):
			next()
			silence.Reset(hedgeDelay)
		}
	}
}

// errSilent means that a server does not answer.
var errSilent = errors.New("the directory does not answer")

// own returns the error of a call under ctx. The client uses errors of contexts also
// when it closes a silent connection; those become errSilent.
func own(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errSilent
	default:
		return err
	}
}

// gist returns the most useful of the servers' errors. That a replica refuses writes, or
// that a server has no map, counts only if there is no other error.
func gist(failures []error) error {
	rest := slices.DeleteFunc(slices.Clone(failures), func(err error) bool {
		return retry.Code(err, "READONLY") || errors.Is(err, ErrNoFleet)
	})
	switch len(rest) {
	case 0:
		return failures[0]
	case 1:
		return rest[0]
	default:
		return errors.Join(rest...)
	}
}
