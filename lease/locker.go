package lease

import (
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/policy"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/wake"
)

// Shortest and longest time that a lease may be asked for.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 366 * 24 * time.Hour
)

// Locker acquires leases on one Redis. It is safe for concurrent use.
type Locker struct {
	cfg    Config
	run    script.Runner
	policy *policy.Watch
	index  registry.Due
	hub    *wake.Hub
}

// Config is how leases are used by this process. The zero value works.
type Config struct {
	// MaxHold is for how long [Locker.Do] holds a lease at most, so that a handler
	// that is stuck does not hold it for ever. Defaults to an hour.
	MaxHold time.Duration

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict any key,
	// for locks that only save work. Defaults to off: acquiring is refused.
	AllowEvictable bool

	// Logger is told when the server does not say what it may evict, or may evict
	// leases and AllowEvictable accepts it, and when that changes while the program
	// runs. Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is told when a lease is held by somebody else. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// New returns a locker. It does not ask Redis. Errors are derived from
// [millrace.ErrBadArgument].
func New(client rueidis.Client, cfg Config) (*Locker, error) {
	if cfg.MaxHold < 0 {
		return nil, millrace.ErrBadArgument.Errorf("MaxHold is negative: %s", cfg.MaxHold)
	}
	if cfg.MaxHold == 0 {
		cfg.MaxHold = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Locker{
		cfg: cfg,
		run: script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks},
		policy: policy.New(client, policy.Config{
			One: "a lease", Many: "leases", Allow: cfg.AllowEvictable, Logger: cfg.Logger,
		}),
		index: registry.Of(client).Leases(cfg.Logger),
		hub:   wake.Of(client, cfg.Logger),
	}, nil
}

// maxToken is the longest token in bytes.
const maxToken = 64

// CheckToken returns the [millrace.ErrBadArgument] with which every call refuses that token,
// and nil for one of 1 to 64 bytes.
func CheckToken(token string) error {
	if len(token) == 0 || len(token) > maxToken {
		return millrace.ErrBadArgument.Errorf("a token is 1 to %d bytes long, not %d", maxToken, len(token))
	}
	return nil
}

// CheckTTL returns the [millrace.ErrBadArgument] with which every call refuses that TTL, and
// nil for one from [MinTTL] to [MaxTTL].
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return millrace.ErrBadArgument.Errorf("a lease lasts from %s to %s, not %s", MinTTL, MaxTTL, ttl)
	}
	return nil
}
