package snapshot

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// probeTimeout is how long a member may take to answer.
const probeTimeout = 2 * time.Second

// pool reaches members by their addresses.
type pool struct{ *members.Pool }

// newPool returns a pool with a long timeout: a member that forks is silent for a while.
func newPool(option rueidis.ClientOption) pool {
	return pool{members.New(option, 2*time.Second)}
}

// probe asks a member for a report.
func (p pool) probe(ctx context.Context, addr string) (members.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("it does not answer"))
	defer cancel()
	return members.Ask(ctx, p.Pool, addr, members.Examine)
}

// probeAll asks members for reports, all at the same time.
func (p pool) probeAll(ctx context.Context, all []directory.Member) ([]members.Report, []error) {
	reports, errs := make([]members.Report, len(all)), make([]error, len(all))
	var probing sync.WaitGroup
	for i, member := range all {
		probing.Go(func() { reports[i], errs[i] = p.probe(ctx, member.Addr) })
	}
	probing.Wait()
	return reports, errs
}

// bgsave orders a member to save its data. It ignores errors of the connection: the fork may
// have delayed the answer.
func (p pool) bgsave(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := members.Ask(ctx, p.Pool, addr, func(ctx context.Context, c rueidis.Client) (string, error) {
		return c.Do(ctx, c.B().Bgsave().Build()).ToString()
	})
	if refusal, ok := rueidis.IsRedisErr(err); ok {
		return refused(refusal.Error())
	}
	return nil
}

// refused returns the error for a member that does not begin to save. Servers have no code
// for one that is saving already.
func refused(why string) error {
	if strings.Contains(why, "already in progress") || strings.Contains(why, "child process is active") {
		return errBusy
	}
	return ErrFailed.Errorf("the member refuses to save: %s", why)
}
