package policy

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// fresh is for how long a verdict holds.
const fresh = time.Minute

// Config says what is at stake.
type Config struct {
	// Refusal is the sentinel from which the error for a server that may evict any
	// key is derived.
	Refusal *millrace.Error

	// One and Many are the words for what may be evicted: "a lease", "leases".
	One, Many string

	// Allow turns the refusal into a warning.
	Allow bool

	// Logger is told of every change, but not of a refusal at the first look,
	// which the caller has as an error.
	Logger *slog.Logger
}

// Watch is what one structure knows of its servers. It is safe for concurrent
// use.
type Watch struct {
	cfg    Config
	client rueidis.Client
	last   atomic.Pointer[verdict]
	turn   chan struct{} // held by the one who asks
}

// verdict is what the servers said at one time.
type verdict struct {
	at    time.Time
	state state
	err   error // the refusal, unless it is allowed
}

// state is what a verdict comes to.
type state int

const (
	well state = iota
	silent
	evictable
)

// New returns a watch over the servers of a client. It does not ask them.
func New(client rueidis.Client, cfg Config) *Watch {
	return &Watch{cfg: cfg, client: client, turn: make(chan struct{}, 1)}
}

// Check returns the refusal if a server may evict any key. It asks if what is
// known is a minute old.
func (w *Watch) Check(ctx context.Context) error {
	if v := w.known(fresh); v != nil {
		return v.err
	}
	_, err := w.Look(ctx, fresh)
	return err
}

// Look is Check for what is known no longer than age. It reports whether it found
// a change.
func (w *Watch) Look(ctx context.Context, age time.Duration) (changed bool, err error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if v := w.known(age); v != nil {
		return false, v.err
	}
	v, say, err := w.ask(ctx)
	if v == nil {
		return false, err
	}
	before := w.last.Swap(v)
	switch {
	case before != nil && before.state == v.state:
		return false, v.err
	case before == nil && v.state == well:
	case before == nil && v.err != nil: // the caller is told
	default:
		say()
	}
	return before != nil, v.err
}

// known returns the verdict unless it is older than age or there is none.
func (w *Watch) known(age time.Duration) *verdict {
	if v := w.last.Load(); v != nil && time.Since(v.at) < age {
		return v
	}
	return nil
}

// ask asks every server, and returns what to log if the verdict is a change. There
// is none if a server does not answer, and an error only if ctx has ended: the
// call that needs the verdict will say what the trouble is, and the next one asks
// again.
func (w *Watch) ask(ctx context.Context) (v *verdict, say func(), err error) {
	v = &verdict{at: time.Now()}
	say = func() {
		w.cfg.Logger.InfoContext(ctx, w.cfg.Many+" are safe here again: no server may evict any key")
	}
	for addr, node := range w.client.Nodes() {
		found, err := read(ctx, node)
		_, answered := rueidis.IsRedisErr(err)
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case err != nil && (!answered || retry.Transient(err)):
			return nil, nil, nil
		case strings.HasPrefix(found, "allkeys-"):
			v.state = evictable
			v.err = w.cfg.Refusal.Saying("the server may evict %s before its time: its maxmemory-policy is %s", w.cfg.One, found)
			refusal := v.err
			say = func() {
				w.cfg.Logger.WarnContext(ctx, w.cfg.Many+" are not safe here", "server", addr, "error", refusal)
			}
		case found == "" && v.state == well:
			v.state = silent
			say = func() {
				w.cfg.Logger.WarnContext(ctx, "the server does not say whether it may evict "+w.cfg.Many+
					"; make sure that its maxmemory-policy is noeviction or volatile-*", "server", addr, "error", err)
			}
		}
	}
	if w.cfg.Allow {
		v.err = nil
	}
	return v, say, nil
}

// read returns the maxmemory-policy of one server, noeviction if it has no limit,
// and nothing if it does not say.
func read(ctx context.Context, node rueidis.Client) (string, error) {
	info, err := script.Prompt(ctx, func(ctx context.Context) (string, error) {
		return node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
	})
	if err != nil {
		return "", err
	}
	found := ""
	for line := range strings.Lines(info) {
		line = strings.TrimSpace(line)
		if line == "maxmemory:0" {
			return "noeviction", nil
		}
		if value, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			found = value
		}
	}
	return found, nil
}
