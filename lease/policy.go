package lease

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// recheck is how often the eviction policy is looked at again: it can change
// while a program runs.
const recheck = time.Minute

// policy is what is known of what the server may evict.
type policy struct {
	last   atomic.Pointer[verdict]
	turn   chan struct{} // held by the one who asks
	warned atomic.Bool   // one warning is enough
}

// verdict is what the servers said at one time.
type verdict struct {
	at  time.Time
	err error // ErrEvictable, or nil
}

func newPolicy() *policy { return &policy{turn: make(chan struct{}, 1)} }

// fresh returns the verdict unless it is too old or there is none.
func (p *policy) fresh() *verdict {
	if v := p.last.Load(); v != nil && time.Since(v.at) < recheck {
		return v
	}
	return nil
}

// checkPolicy refuses servers that may evict any key. It reads INFO and not
// CONFIG, which managed services deny. What cannot be read only warns.
func (l *Locker) checkPolicy(ctx context.Context) error {
	p := l.policy
	if v := p.fresh(); v != nil {
		return v.err
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if v := p.fresh(); v != nil {
		return v.err
	}
	v := &verdict{at: time.Now()}
	for addr, node := range l.run.Client.Nodes() {
		found, err := readPolicy(ctx, node)
		_, answered := rueidis.IsRedisErr(err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!answered || retry.Transient(err)):
			return nil // the call itself will say what the trouble is, and the next one asks again
		case strings.HasPrefix(found, "allkeys-"):
			v.err = ErrEvictable.Saying("the server may evict a lease before its time: its maxmemory-policy is %s", found)
		case found == "" && !p.warned.Swap(true):
			l.cfg.Logger.WarnContext(ctx, "the server does not say whether it may evict leases; make sure that its maxmemory-policy is noeviction or volatile-*",
				"server", addr, "error", err)
		}
	}
	if v.err != nil && l.cfg.AllowEvictable {
		if !p.warned.Swap(true) {
			l.cfg.Logger.WarnContext(ctx, "leases are not safe here", "error", v.err)
		}
		v.err = nil
	}
	p.last.Store(v)
	return v.err
}

// readPolicy returns the maxmemory-policy of one server, noeviction if it has no
// limit, and nothing if it does not say.
func readPolicy(ctx context.Context, node rueidis.Client) (string, error) {
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
