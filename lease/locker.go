package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/hub"
	"github.com/millrace/millrace/internal/redis/policy"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

const (
	maxMetadata = 4096 // bytes

	// pollInterval is how often a waiter asks again, because a wake-up is best effort.
	pollInterval = time.Second

	// waiterTTL is how long a process counts as waiting after its last request. It
	// repeats the request each pollInterval.
	waiterTTL = 2 * pollInterval

	// releaseTimeout bounds a release, even when the caller's context has ended.
	releaseTimeout = time.Second
)

// Locker acquires leases on one Redis. It is safe for concurrent use.
type Locker struct {
	cfg    Config
	run    script.Runner
	policy *policy.Watch
	index  registry.Due
	hub    *hub.Hub
	hold   time.Duration // for which Do renews unless MaxHold is set
}

// defaultHold is Locker.hold, except in tests.
const defaultHold = time.Hour

// Config has the settings of a [Locker]. The zero value works.
type Config struct {
	// MaxHold limits how long [Locker.Do] and [Locker.Once] renew a lease, because a stuck
	// function looks just like a busy one. Defaults to an hour, and for Once to the end of the
	// next period if that is later.
	MaxHold time.Duration

	// AllowEvictable accepts a server whose maxmemory-policy may evict any key, for
	// locks that only save work. Defaults to false: acquiring fails.
	AllowEvictable bool

	// Logger gets a warning when the server does not report its eviction policy, or may
	// evict leases and AllowEvictable is set, and reports later changes of the policy.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is notified when another holder has the lease. Defaults to none.
	Enlister millrace.Enlister

	// Hooks observe the calls. Defaults to none.
	Hooks []millrace.Hook
}

// New returns a locker. It does not call Redis. Errors: [millrace.ErrBadArgument].
func New(client rueidis.Client, cfg Config) (*Locker, error) {
	if cfg.MaxHold < 0 {
		return nil, millrace.ErrBadArgument.Errorf("MaxHold is negative: %s", cfg.MaxHold)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Locker{
		cfg: cfg,
		run: script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks},
		policy: policy.New(client, policy.Config{
			One: "a lease", Many: "leases", Allow: cfg.AllowEvictable, Logger: cfg.Logger,
		}),
		index: registry.Of(client).Leases(cfg.Logger),
		hub:   hub.Of(client, cfg.Logger),
		hold:  defaultHold,
	}, nil
}

// AcquireConfig has the settings of one acquisition. The zero value tries once and never
// renews.
type AcquireConfig struct {
	// Wait is how long to wait while another holder has the lease. A negative value waits
	// until the context ends. Defaults to 0, no waiting.
	Wait time.Duration

	// MaxHold renews the lease in the background after each third of its TTL, until it
	// has been held this long. Defaults to 0, no renewal; with [Locker.Do] to [Config.MaxHold].
	MaxHold time.Duration

	// Metadata describes the holder to callers that find the lease held: a host, a
	// process. At most 4,096 bytes. Defaults to none.
	Metadata string

	// Unless is called before each repeated try. If it returns an error, the waiting ends
	// with that error. It is for callers that wait for the holder's result and do not
	// need the lease then: a release wakes all of them, and not only one in each process.
	// Defaults to none.
	Unless func(ctx context.Context) error

	// Token names the holder, 1 to 64 bytes. It is as good as the lease itself: with it a
	// program may refresh and release the lease, and acquiring again with it adopts the
	// lease. Two holders must never share a token. Defaults to 128 random bits.
	Token string
}

// Acquire takes the lease of that name for ttl, from 10 ms to 366 days, in
// whole milliseconds. The context bounds the acquiring, not the holding; [Lease.Context] keeps
// its values.
//
// After a lost reply the library asks again and adopts the lease it got. If the outcome stays
// unknown, it releases the lease in the background, or the lease expires. With a Token it
// does not: the caller may acquire again with it.
//
// All waiting callers of a process share one connection.
//
// Errors: [ErrHeld], see [Holder]; [millrace.ErrEvictable], [millrace.ErrBadName],
// [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion],
// [millrace.ErrFull], [ErrExpired] when the reply came too late, and the errors of Unless.
func (l *Locker) Acquire(ctx context.Context, name string, ttl time.Duration, cfg AcquireConfig) (*Lease, error) {
	r := request{name: name, token: cfg.Token, ttl: ttl, metadata: cfg.Metadata}
	if r.token == "" {
		r.token = newToken()
	}
	if err := cmp.Or(names.CheckLease(name), names.CheckLeaseToken(r.token), names.CheckLeaseTTL(ttl)); err != nil {
		return nil, err
	}
	if cfg.MaxHold < 0 {
		return nil, millrace.ErrBadArgument.Errorf("MaxHold is negative: %s", cfg.MaxHold)
	}
	if len(cfg.Metadata) > maxMetadata {
		return nil, millrace.ErrBadArgument.Errorf("the metadata is %d bytes long, more than %d", len(cfg.Metadata), maxMetadata)
	}
	if err := l.policy.Check(ctx); err != nil {
		return nil, err
	}
	g, err := l.obtain(ctx, r, cfg)
	if err != nil {
		return nil, err
	}
	lease := newLease(ctx, l, r, g)
	if lease.ctx.Err() != nil {
		go l.giveBack(ctx, r)
		return nil, ErrExpired.Errorf("the lease expired before the reply came")
	}
	if cfg.MaxHold > 0 {
		lease.renew(ttl, g.asked.Add(cfg.MaxHold))
	}
	return lease, nil
}

type request struct {
	name, token string
	ttl         time.Duration
	metadata    string
	waiter      string // the id of this process if the caller waits
}

type grant struct {
	asked     time.Time // before the request was sent
	fence     int64
	remaining time.Duration // until the deadline, at most, counted from asked
	until     time.Time     // the deadline by the server's clock
}

// obtain asks until the lease is free or the wait is over.
func (l *Locker) obtain(ctx context.Context, r request, cfg AcquireConfig) (g grant, err error) {
	began := time.Now()
	var waiter *hub.Waiter
	if cfg.Wait != 0 { // joined before the first request, so that it misses no release
		waiter, r.waiter = l.hub.Join(baseKey(r.name), cfg.Unless != nil), l.hub.ID()
		defer func() { waiter.Leave(err == nil) }()
	}
	for {
		g, held, err := l.ask(ctx, r)
		if err != nil && cfg.Token == "" && uncertain(err) {
			go l.giveBack(ctx, r)
		}
		if err != nil || held == nil {
			return g, err
		}
		pause := min(pollInterval, held.Remaining)
		if cfg.Wait >= 0 {
			left := cfg.Wait - time.Since(began)
			if left <= 0 {
				if l.cfg.Enlister != nil && ctx.Err() == nil {
					l.cfg.Enlister.Enlist(ctx)
				}
				return g, held
			}
			pause = min(pause, left)
		}
		waiter.Wait(ctx, pause)
		if ctx.Err() != nil {
			return g, fmt.Errorf("%w (%w)", context.Cause(ctx), held)
		}
		if cfg.Unless != nil {
			if err := cfg.Unless(ctx); err != nil {
				return g, err
			}
		}
	}
}

func (l *Locker) ask(ctx context.Context, r request) (grant, *heldError, error) {
	args := []string{r.token, millis(r.ttl)}
	switch {
	case r.waiter != "":
		args = append(args, r.metadata, r.waiter)
	case r.metadata != "":
		args = append(args, r.metadata)
	}
	reply, err := l.run.Run(ctx, "acquire", baseKey(r.name), args...)
	if err != nil {
		return grant{}, nil, err
	}
	own := reply.Bool()
	g := grant{asked: reply.Asked, fence: reply.Int(), remaining: reply.Millis(), until: time.UnixMilli(reply.Int())}
	if reply.Err() == nil {
		l.index.Enter(r.name, g.until.Add(-g.remaining)) // another's lease, too: its holder may be dead
	}
	if own {
		return g, nil, reply.Err()
	}
	return g, &heldError{Info{
		Name: r.name, Held: true, Fence: g.fence, Remaining: g.remaining, Deadline: g.until, Metadata: reply.Text(),
	}}, reply.Err()
}

// uncertain reports whether a failed call may have taken effect.
func uncertain(err error) bool {
	reply, answered := errors.AsType[*rueidis.RedisError](err)
	return !answered || retry.Transient(reply)
}

// giveBack releases a lease that no caller will use, if it was acquired. The request for it may
// still be on its way, on another connection. So a release that finds no lease is repeated. It ends
// within little more than two seconds.
func (l *Locker) giveBack(ctx context.Context, r request) {
	if errors.Is(l.Release(ctx, r.name, r.token), ErrLost) && retry.Sleep(context.WithoutCancel(ctx), releaseTimeout/10) {
		_ = l.Release(ctx, r.name, r.token) // otherwise it expires
	}
}

// Info describes a lease at one moment.
type Info struct {
	Name      string
	Held      bool
	Token     string        // the holder's; empty when the lease is free
	Fence     int64         // that of the last acquisition; 0 when unknown
	Remaining time.Duration // until the deadline; 0 when the lease is free
	Deadline  time.Time     // by the server's clock; zero when the lease is free
	Metadata  string        // the holder's
}

// Refresh is [Lease.Refresh] for a program that has only the token. Remaining is counted
// from when the server refreshed the lease; a careful caller counts from before the call.
func (l *Locker) Refresh(ctx context.Context, name, token string, ttl time.Duration) (Info, error) {
	info, _, err := l.refresh(ctx, name, token, ttl)
	return info, err
}

// refresh also returns when the request was sent.
func (l *Locker) refresh(ctx context.Context, name, token string, ttl time.Duration) (Info, time.Time, error) {
	if err := cmp.Or(names.CheckLease(name), names.CheckLeaseToken(token), names.CheckLeaseTTL(ttl)); err != nil {
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

// Release is [Lease.Release] for a program that has only the token. For a minute the last
// token that released a lease may release it again; every other token gets [ErrLost].
func (l *Locker) Release(ctx context.Context, name, token string) error {
	if err := cmp.Or(names.CheckLease(name), names.CheckLeaseToken(token)); err != nil {
		return err
	}
	ctx, cancel := script.Within(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	base := baseKey(name)
	reply, err := l.run.Run(ctx, "release", base, token)
	if err != nil {
		return err
	}
	released, now, waiters := reply.Bool(), time.UnixMilli(reply.Int()), reply.Text()
	if released && !l.index.Withdraw(name) {
		l.index.Enter(name, now) // so that the reaper finds when the key has expired
	}
	if waiters != "" {
		l.hub.Wake(ctx, base, waiting(waiters, now))
	}
	if err := reply.Err(); err != nil || released {
		return err
	}
	return ErrLost
}

// waiting returns the ids of the processes that still wait, from entries such as "ID MS;".
func waiting(entries string, now time.Time) (ids []string) {
	for entry := range strings.SplitSeq(entries, ";") {
		id, at, _ := strings.Cut(entry, " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && now.Before(time.UnixMilli(ms).Add(waiterTTL)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Show describes the lease of that name. A lease that was never held is free. Errors:
// [millrace.ErrBadName], [millrace.ErrBroken], [millrace.ErrVersion].
func (l *Locker) Show(ctx context.Context, name string) (Info, error) {
	if err := names.CheckLease(name); err != nil {
		return Info{}, err
	}
	reply, err := l.run.Run(ctx, "show", baseKey(name))
	if err != nil {
		return Info{}, err
	}
	return readInfo(name, reply)
}

// List yields the names of leases, in no order: those that are held; those that expired,
// until another holder takes them or, a minute later, they are reaped; and for up to a
// minute those that were released, except those held for less than 10 ms.
// [Locker.Show] distinguishes them. The client that acquired a lease finds it at once,
// others some 10 ms later. The cost grows with the number of leases only.
//
// When servers do not answer, List yields the names on the others and then
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.ListLeases(ctx, client, names.CheckLease)
}

func readInfo(name string, reply *script.Reply) (Info, error) {
	return Info{
		Name: name, Held: reply.Bool(), Token: reply.Text(), Fence: reply.Int(),
		Remaining: reply.Millis(), Deadline: reply.MilliTime(), Metadata: reply.Text(),
	}, reply.Err()
}

// baseKey is the key of a lease: a string with version, fence, deadline, the time of the last
// write, token, metadata and waiters. The key has a TTL once the lease is released. The braces
// keep all keys of a lease in one slot of a Redis Cluster.
func baseKey(name string) string { return "mr:lease:{" + name + "}" }

func newToken() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
