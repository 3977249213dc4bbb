package policy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Config says what is at stake.
type Config struct {
	// One and Many are the words for what may be evicted: "a lease", "leases".
	One, Many string

	// Volatile refuses volatile-* policies as well, because keys with a Redis TTL are at stake.
	Volatile bool

	// Allow turns the refusal into a warning.
	Allow bool

	// Logger is told of every change, but not of a refusal by the first verdict,
	// which the caller has as an error.
	Logger *slog.Logger
}

// Watch is what one structure knows of its servers. It is safe for concurrent
// use, and needs no closing.
type Watch struct {
	cfg    Config
	client rueidis.Client
	limits limits

	verdict atomic.Pointer[verdict] // nil before the first
	told    atomic.Pointer[verdict] // what Changed went by last

	mu      sync.Mutex
	decided chan struct{} // closed when the refresh under way has decided; nil when none is

	nodes map[string]*node // by address; the refresh under way has it
}

// limits are the times that a Watch goes by.
type limits struct {
	fresh time.Duration // for how long the answer of a node holds
	wait  time.Duration // for how long a call waits for answers
	probe time.Duration // for how long a node may take to answer
}

// A call of package fetch does without Redis after a second, so that the wait for
// other servers must be well below.
var standard = limits{fresh: time.Minute, wait: time.Second / 2, probe: 10 * time.Second}

// verdict is what calls go by.
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

// Check returns [millrace.ErrEvictable] if a server may evict any key, as far as is known. It
// waits for servers only if there is no verdict yet, or none of the last two
// minutes, and then for half a second at most.
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

// Changed reports whether the state has changed since it was called before, and
// starts a refresh if the verdict is older than age. It waits for no server.
func (w *Watch) Changed(ctx context.Context, age time.Duration) bool {
	v := w.verdict.Load()
	if v == nil || time.Since(v.at) >= age {
		w.refresh(ctx, age)
	}
	before := w.told.Swap(v)
	return before != nil && before.state != v.state
}
