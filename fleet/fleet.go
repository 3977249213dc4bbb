package fleet

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// Config says how to use a fleet. The zero value works.
type Config struct {
	// ReadReplicas spreads reads over masters and replicas that are in step. All reads of a tag
	// go to the same member while it serves. A replica may be a little behind. Scripts count as
	// writes, unless they are called with EVAL_RO or EVALSHA_RO. Defaults to false: reads go to
	// masters, and to a replica only while its master cannot be reached.
	ReadReplicas bool

	// ReadYourWrites reads a tag that this process wrote for from its master until the
	// replica is known to have the write. Defaults to false.
	ReadYourWrites bool

	// WaitReplicas is how many replicas of the map must have a write before it is a
	// success; with fewer it is millrace.ErrUncertain. Pops such as LPOP and BLPOP are
	// refused then, except that structures wake their consumers. Each write uses a connection of its own while it waits. Defaults to
	// 0.
	WaitReplicas int

	// Placements is how many places of tags to cache, about 150 bytes each. The cache
	// holds at most four times as many. Defaults to 100,000.
	Placements int

	// Option says how to connect to members: user, password, TLS, timeouts. Its
	// addresses are not used. Defaults to no password.
	Option rueidis.ClientOption

	// Logger logs when the map cannot be confirmed, and when it can be again. Defaults
	// to slog.Default().
	Logger *slog.Logger
}

// Fleet is many Redis servers as one. It is safe for concurrent use.
type Fleet struct {
	dir     *directory.Directory
	cfg     Config
	start   time.Time // the origin of now
	view    atomic.Pointer[view]
	mayAsk  atomic.Int64 // when the directory may be asked again, by now
	places  *cache
	names   replicas.Names
	watched watch

	builder rueidis.Builder
	whole   *client // the client of all tags

	mu        sync.Mutex
	scripts   *script.Library
	flight    *flight // the request to the directory that is in flight
	members   map[string]*member
	closed    bool
	release   func()
	stop      context.CancelFunc
	ended     context.Context // ends with Close
	following sync.WaitGroup
}

// Directory keeps the map of a fleet. It is for Millrace's own packages: its methods and fields
// are no API.
type Directory = directory.Directory

// Open opens the fleet of a directory, and follows its map until Close. It is for
// Millrace's own packages; programs call [Dial], or Dial of package etcd. The caller closes
// the directory.
func Open(ctx context.Context, dir *Directory, cfg Config) (*Fleet, error) {
	release := func() {}
	if dir.Owned {
		release, dir.Owned = dir.Close, false // others may be opened on it, too
	}
	if cfg.WaitReplicas < 0 || cfg.Placements < 0 {
		release()
		return nil, millrace.ErrBadArgument.Errorf("WaitReplicas %d and Placements %d must not be negative", cfg.WaitReplicas, cfg.Placements)
	}
	if cfg.Placements == 0 {
		cfg.Placements = 100_000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	ended, stop := context.WithCancel(context.Background())
	f := &Fleet{
		dir: dir, cfg: cfg, start: time.Now(), places: newCache(cfg.Placements),
		builder: builder(), scripts: members.Scripts, members: map[string]*member{}, release: release, stop: stop, ended: ended,
	}
	f.watched.now = f.now
	f.whole = &client{f: f, partition: anyPartition}
	// Clients that only read can start while the directory confirms nothing.
	err := f.refresh(ctx)
	if f.view.Load() != nil {
		err = f.waitsEnough()
	}
	if err != nil {
		stop()
		release()
		return nil, directory.Unreachable(ctx, err)
	}
	f.following.Go(f.follow)
	f.following.Go(func() { f.watchClock(f.ahead) })
	f.following.Go(func() {
		for retry.Sleep(f.ended, memberTimeout/6) {
			f.watched.check()
		}
	})
	return f, nil
}

// waitsEnough refuses a WaitReplicas with which failovers may lose confirmed writes.
func (f *Fleet) waitsEnough() error {
	if need := f.view.Load().m.Settings.Effective().Confirmed; f.cfg.WaitReplicas > 0 && f.cfg.WaitReplicas < need {
		return millrace.ErrBadArgument.Errorf("a WaitReplicas of %d does not help: failovers of this fleet rely on %d", f.cfg.WaitReplicas, need).
			WithHint("Wait for as many replicas as millrace fleet set shows for confirmed, or for none.")
	}
	return nil
}

// Dial opens the fleet that a URL names, see [ParseURL]. The URL sets Config.Option.
func Dial(ctx context.Context, url string, cfg Config) (*Fleet, error) {
	option, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	dir, err := directory.Dial(option)
	if err != nil {
		return nil, err
	}
	dir.Owned, cfg.Option = true, option
	return Open(ctx, dir, cfg)
}

// Close closes all connections, after the calls in flight.
func (f *Fleet) Close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	members := f.members
	f.members = nil
	f.mu.Unlock()
	f.stop()
	f.following.Wait()
	for _, m := range members {
		m.close()
	}
	f.release()
}

// Client returns a client that routes each command by the tag of its keys. It is the
// same client each time. Its Nodes are the partitions' masters. Closing it closes the
// fleet.
func (f *Fleet) Client() rueidis.Client { return f.whole }

// Partitions returns a client for each partition, by number. It sends every command
// there, with any keys. Writes are fenced. Closing one does nothing.
func (f *Fleet) Partitions() []rueidis.Client {
	clients := make([]rueidis.Client, len(f.view.Load().partitions))
	for i := range clients {
		clients[i] = f.partition(i)
	}
	return clients
}

func (f *Fleet) partition(id int) *client {
	return &client{f: f, partition: id}
}

// background runs work for a second at most, and then done. Only Close waits for it.
func (f *Fleet) background(work func(ctx context.Context), done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		done()
		return
	}
	f.following.Go(func() {
		defer done()
		ctx, cancel := context.WithTimeout(f.ended, directory.DefaultViewTTL)
		defer cancel()
		work(ctx)
	})
}

// now returns a monotonic time in nanoseconds. It is cheaper than time.Now.
func (f *Fleet) now() int64 { return int64(time.Since(f.start)) }
