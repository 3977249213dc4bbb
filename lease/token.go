package lease

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/script"
)

// releasePatience is for how long a release tries, whatever becomes of the
// caller's context.
const releasePatience = time.Second

// Info is what there is of a lease at one moment.
type Info struct {
	Name      string
	Held      bool
	Token     string        // the holder's; empty when nobody holds it
	Fence     int64         // that of the last acquisition; 0 when none is known
	Remaining time.Duration // until the deadline; 0 when nobody holds it
	Deadline  time.Time     // by the server's clock; zero when nobody holds it
	Metadata  string        // the holder's
}

// Refresh is [Lease.Refresh] for a program that has only the token. It returns
// what there is of the lease from then on. What remains is counted by the server
// from when it refreshed; a careful caller counts from before it called.
func (l *Locker) Refresh(ctx context.Context, name, token string, ttl time.Duration) (Info, error) {
	info, _, err := l.refresh(ctx, name, token, ttl)
	return info, err
}

// refresh is Refresh, and tells from when what remains may be counted.
func (l *Locker) refresh(ctx context.Context, name, token string, ttl time.Duration) (Info, time.Time, error) {
	if err := cmp.Or(CheckName(name), CheckToken(token), CheckTTL(ttl)); err != nil {
		return Info{}, time.Time{}, err
	}
	reply, err := l.run.Run(ctx, "refresh", baseKey(name), token, millis(ttl))
	if err != nil {
		return Info{}, time.Time{}, err
	}
	info, err := readInfo(name, reply)
	switch {
	case err != nil:
	case info.Held:
		l.index.Enter(name, info.Deadline.Add(-info.Remaining))
	default:
		err = ErrLost
	}
	return info, reply.Asked, err
}

// Release is [Lease.Release] for a program that has only the token. The last
// token that released a lease is known for a minute, and may release it again;
// one before it is told [ErrLost].
func (l *Locker) Release(ctx context.Context, name, token string) error {
	if err := cmp.Or(CheckName(name), CheckToken(token)); err != nil {
		return err
	}
	ctx, cancel := script.Within(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	base := baseKey(name)
	reply, err := l.run.Run(ctx, "release", base, token)
	if err != nil {
		return err
	}
	released, now, waiters := reply.Bool(), time.UnixMilli(reply.Int()), reply.Text()
	if released && !l.index.Withdraw(name) {
		l.index.Enter(name, now) // to be looked at when what is left of it is gone
	}
	if waiters != "" {
		l.hub.Wake(ctx, base, waiting(waiters, now))
	}
	if err := reply.Err(); err != nil || released {
		return err
	}
	return ErrLost
}

// forgotten is how long after it last came a process counts as waiting: it comes again
// after longestWait.
const forgotten = 2 * time.Second

// waiting returns the ids of those processes that wait, of entries such as "ID MS;".
func waiting(entries string, now time.Time) (ids []string) {
	for entry := range strings.SplitSeq(entries, ";") {
		id, at, _ := strings.Cut(entry, " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && now.Before(time.UnixMilli(ms).Add(forgotten)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Show tells what there is of the lease of that name; a lease that nobody ever
// held is not held. Errors: [millrace.ErrBadName], [millrace.ErrBroken], [millrace.ErrVersion].
func (l *Locker) Show(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	reply, err := l.run.Run(ctx, "show", baseKey(name))
	if err != nil {
		return Info{}, err
	}
	return readInfo(name, reply)
}

func readInfo(name string, reply *script.Reply) (Info, error) {
	return Info{
		Name: name, Held: reply.Bool(), Token: reply.Text(), Fence: reply.Int(),
		Remaining: reply.Millis(), Deadline: reply.MilliTime(), Metadata: reply.Text(),
	}, reply.Err()
}
