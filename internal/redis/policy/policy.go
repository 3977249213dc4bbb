package policy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Config describes the keys at risk.
type Config struct {
	// One and Many name the data that may be evicted: "a lease", "leases".
	One, Many string

	// Volatile refuses volatile-* policies as well, because keys with a Redis TTL are at risk.
	Volatile bool

	// Allow turns the refusal into a warning.
	Allow bool

	// Logger reports every change, except for a refusal by the first verdict, which the
	// caller gets as an error.
	Logger *slog.Logger
}

// Watch watches the servers of one structure. It is safe for concurrent use, and needs no
// closing.
type Watch struct {
	cfg    Config
	client rueidis.Client
	limits limits

	verdict atomic.Pointer[verdict] // nil before the first
	seen    atomic.Pointer[verdict] // by the last call of Changed

	mu      sync.Mutex
	decided chan struct{} // closed when the refresh under way has decided; nil when none is

	nodes map[string]*node // by address; the refresh under way has it
}

// limits are the times of a Watch.
type limits struct {
	fresh time.Duration // how long an answer of a node is valid
	wait  time.Duration // how long a call waits for answers
	probe time.Duration // how long a node may take to answer
}

// A call of package fetch goes without Redis after a second, so the wait must be shorter.
var standard = limits{fresh: time.Minute, wait: time.Second / 2, probe: 10 * time.Second}

// verdict is the state that calls use.
type verdict struct {
	state   state
	refusal error     // nil unless the state is evictable, or if that is allowed
	at      time.Time // when it was made
	due     time.Time // when a node is to be probed again
}

// New returns a watch over the servers of a client. It does not ask them.
func New(client rueidis.Client, cfg Config) *Watch {
	return &Watch{cfg: cfg, client: client, limits: standard, nodes: make(map[string]*node)}
}

// Check returns [millrace.ErrEvictable] if a server is known to evict keys at risk. It waits
// for servers only if there is no verdict of the last two minutes, and then for half a
// second at most.
func (w *Watch) Check(ctx context.Context) error {
	v, now := w.verdict.Load(), time.Now()
	switch {
	case v == nil || now.Sub(v.at) >= 2*w.limits.fresh:
		select {
		case <-w.refresh(ctx, w.limits.fresh):
			v = w.verdict.Load()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case now.After(v.due):
		w.refresh(ctx, w.limits.fresh)
	}
	return v.refusal
}

// Changed reports whether the state has changed since the previous call, and starts a
// refresh if the verdict is older than age. It waits for no server.
func (w *Watch) Changed(ctx context.Context, age time.Duration) bool {
	v := w.verdict.Load()
	if v == nil || time.Since(v.at) >= age {
		w.refresh(ctx, age)
	}
	before := w.seen.Swap(v)
	return before != nil && before.state != v.state
}
