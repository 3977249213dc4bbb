package directory

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// hedgeDelay is how long Ask waits for one server before it asks the next one as well.
const hedgeDelay = 100 * time.Millisecond

// Ask asks the servers of a directory in turn, beginning with the index from, and returns
// the first answer and the index of its server. It asks the next one when one fails, or
// does not answer within 100 ms: a slow server's answer still counts, and a frozen one
// must not use up the caller's time. So a call may be executed by several servers.
func Ask[S, T any](ctx context.Context, servers []S, from int, call func(ctx context.Context, s S) (T, error)) (value T, at int, err error) {
	type answer struct {
		value T
		at    int
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(servers))
	asked := 0
	next := func() {
		at := (from + asked) % len(servers)
		asked++
		go func() {
			value, err := call(ctx, servers[at])
			for errors.Is(err, context.Canceled) && ctx.Err() == nil {
				// The call that was opening the connection was cancelled.
				value, err = call(ctx, servers[at])
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
		case len(failures) == len(servers):
			return value, 0, gist(failures)
		case asked < len(servers):
			next()
			silence.Reset(hedgeDelay)
		}
	}
}

// ErrSilent means that a server of the directory did not answer in time.
var ErrSilent = errors.New("the directory does not answer")

// own returns the error of a call under ctx. The client uses errors of contexts also
// when it closes a silent connection; those become ErrSilent.
func own(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ErrSilent
	default:
		return retry.Bare(err)
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
