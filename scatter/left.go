package scatter

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/script"
)

// Left is what a server still has of a group, as far as the library has written it.
type Left struct {
	Server string
	Drain  bool // sessions go to other servers, as this process has it

	// Flushes is how many there were. It grows as long as anybody writes there.
	Flushes int64

	// Until is when the last of the values ends that have an end: those in buckets. It is
	// the zero time if there were none.
	Until time.Time

	// Forever says that values without an end were written. They do not go by themselves.
	Forever bool

	// Empty says that nothing was written, or that all of it has ended.
	Empty bool
}

// Left returns what each server has left, in their order. A server that is drained may
// be taken out of all lists when it is empty, and nobody writes there any more: neither
// programs that have another list, nor repeats of what was flushed before.
//
// Of a server that does not answer there is the name alone, and the error is a
// [*PartialError].
func (s *Scatter) Left(ctx context.Context) ([]Left, error) {
	lefts, failed := each(s, func(srv *server) (Left, error) {
		l := Left{Server: srv.Name, Drain: srv.Drain}
		reply, err := s.on(ctx, srv, func(ctx context.Context, l *link) (*script.Reply, error) {
			return l.Run(ctx, "left", s.base)
		})
		if err != nil {
			return l, err
		}
		now := reply.MilliTime()
		l.Flushes, l.Until, l.Forever = reply.Int(), reply.MilliTime(), reply.Bool()
		l.Empty = !l.Forever && !l.Until.After(now)
		return l, reply.Err()
	})
	return lefts, partial(s.servers, failed)
}
