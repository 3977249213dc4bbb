package scatter

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/ring"
)

const maxName = 512 // bytes of the name of a group, a server or a value

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// Server is one of the servers of a group: a redis-server, or a partition of a fleet.
type Server struct {
	// Name identifies the server in errors and results. Defaults to the address in Option, or
	// to the position in the list.
	Name string

	// Client is the connection to the server. The caller closes it. Defaults to one made from
	// Option.
	Client rueidis.Client

	// Option says how to connect if there is no Client. The first call to the server connects.
	Option rueidis.ClientOption

	// Drain stops new sessions on this server, which is still read, so that it can be removed
	// when [Scatter.Left] reports it empty. Defaults to false.
	Drain bool
}

// Clients returns servers named 0, 1 and so on, for example the partitions of a fleet.
func Clients(clients ...rueidis.Client) []Server {
	servers := make([]Server, len(clients))
	for i, c := range clients {
		servers[i] = Server{Name: fmt.Sprint(i), Client: c}
	}
	return servers
}

// Config has the settings of a [Scatter]. The zero value works.
type Config struct {
	// Group names the library's own keys. All processes that share values need the same one.
	// Defaults to "main".
	Group string

	// Shard returns which of n servers, from 0 on, gets a session with that shard key:
	// [JavaHash], [RoundRobin] or another function that is safe for concurrent use.
	// Processes may differ. Defaults to [ring.Position] of the key, modulo n.
	Shard func(key string, n int) int

	// Timeout bounds one call to one server, within the deadline of the caller. Defaults to 1
	// second.
	Timeout time.Duration

	// MaxMembers is the largest number of members of one set or sorted set, or entries of one
	// list, that a gather holds in memory, all servers together. Defaults to 100,000.
	MaxMembers int

	// Gzip compresses the bodies of list entries if that makes them shorter. Readers
	// understand both. Defaults to false.
	Gzip bool

	// AllowEvictable accepts servers whose maxmemory-policy may evict counters, for numbers
	// that may be too low or, after a repeat, too high. Defaults to false: nothing is written
	// to such a server. The service (millrace serve) has no such setting and always refuses.
	AllowEvictable bool

	// Logger gets warnings about counters of a Tally that cannot be written, and about servers
	// that may evict. Defaults to [slog.Default].
	Logger *slog.Logger

	// Hooks observe the calls. Defaults to none.
	Hooks []millrace.Hook
}

// Scatter writes values to one of several servers, and reads them from all. It is safe for
// concurrent use. Close it.
type Scatter struct {
	cfg     Config
	base    string // of the library's own keys
	servers []*server
	writers []*server // those without Drain
	scripts *script.Library
}

// New returns a group of servers. It connects to none. Servers may be added to the list at any
// time; values on servers outside the list are not read. Errors: [millrace.ErrBadName],
// [millrace.ErrBadArgument].
func New(servers []Server, cfg Config) (*Scatter, error) {
	cfg.Group = cmp.Or(cfg.Group, "main")
	if err := names.Check(errName, "name of a group", cfg.Group, maxName); err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("there is no server to write to")
	}
	if cfg.Timeout < 0 || cfg.MaxMembers < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Timeout and MaxMembers cannot be negative")
	}
	cfg.Timeout, cfg.MaxMembers = cmp.Or(cfg.Timeout, time.Second), cmp.Or(cfg.MaxMembers, 100_000)
	if cfg.Shard == nil {
		cfg.Shard = ringHash
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	s := &Scatter{cfg: cfg, base: "mr:scatter:{" + cfg.Group + "}", scripts: library}
	seen := map[string]bool{}
	for i, srv := range servers {
		if srv.Name == "" {
			srv.Name = fmt.Sprint(i)
			if srv.Client == nil && len(srv.Option.InitAddress) > 0 {
				srv.Name = srv.Option.InitAddress[0]
			}
		}
		if err := names.Check(errName, "name of a server", srv.Name, maxName); err != nil {
			return nil, err
		}
		if seen[srv.Name] {
			return nil, millrace.ErrBadArgument.Errorf("two servers are called %q", srv.Name)
		}
		if srv.Client == nil && len(srv.Option.InitAddress) == 0 {
			return nil, millrace.ErrBadArgument.Errorf("server %q has neither a Client nor an address", srv.Name)
		}
		seen[srv.Name] = true
		s.servers = append(s.servers, &server{Server: srv})
		if !srv.Drain {
			s.writers = append(s.writers, s.servers[i])
		}
	}
	return s, nil
}

// Servers returns the names of the servers, in their order.
func (s *Scatter) Servers() []string {
	list := make([]string, len(s.servers))
	for i, srv := range s.servers {
		list[i] = srv.Name
	}
	return list
}

// Close closes the connections that this group opened. Later calls fail.
func (s *Scatter) Close() {
	for _, srv := range s.servers {
		srv.close()
	}
}

// Left describes the data that a group still has on a server, as far as the library wrote it.
type Left struct {
	Server string
	Drain  bool // in the list of this process

	// Flushes is the number of flushes so far. It grows while any process writes there.
	Flushes int64

	// Until is when the last of the values in buckets ends. It is zero if there were none.
	Until time.Time

	// Forever reports that values without an end were written. They never expire.
	Forever bool

	// Empty reports that nothing was written, or that all of it has ended.
	Empty bool

	// Err is set if the server did not answer. Then only Server and Drain are known.
	Err error
}

// Left returns the remaining data of each server, in their order. A drained server may be removed
// from all lists when it is empty and no process writes there any more, neither with another list
// nor by a repeated flush. When servers do not answer, the others are returned with
// [millrace.ErrPartial].
func (s *Scatter) Left(ctx context.Context) ([]Left, error) {
	lefts, failed := each(s, func(srv *server) (Left, error) {
		l := Left{Server: srv.Name, Drain: srv.Drain}
		reply, err := s.on(ctx, srv, func(ctx context.Context, l *link) (*script.Reply, error) {
			return l.Run(ctx, "left", s.base)
		})
		if err != nil {
			l.Err = err
			return l, err
		}
		now := reply.MilliTime()
		l.Flushes, l.Until, l.Forever = reply.Int(), reply.MilliTime(), reply.Bool()
		l.Empty = !l.Forever && !l.Until.After(now)
		l.Err = reply.Err()
		return l, l.Err
	})
	_, err := partial(s.servers, failed)
	return lefts, err
}

// ringHash sends a shard key always to the same server.
func ringHash(key string, n int) int { return int(ring.Position(key) % uint64(n)) }

// JavaHash is a Shard that agrees with Java programs that use Math.abs(key.hashCode()) % n, and
// with everything that has Java's hash: s[0]*31^(m-1) + ... + s[m-1] in 32 bits over the m UTF-16
// code units of the key, which is UTF-8 here. The hash -2147483648, for which Java's line gives
// a negative number, counts as 2147483648.
func JavaHash(key string, n int) int {
	var hash int32
	var units [2]uint16
	for _, r := range key {
		for _, unit := range utf16.AppendRune(units[:0], r) {
			hash = 31*hash + int32(unit)
		}
	}
	positive := int64(hash)
	if positive < 0 {
		positive = -positive
	}
	return int(positive % int64(n))
}

// RoundRobin returns a Shard that takes the servers in turn, whatever the key: the load is even,
// and each process connects to all servers.
func RoundRobin() func(key string, n int) int {
	var next atomic.Uint64
	return func(_ string, n int) int { return int((next.Add(1) - 1) % uint64(n)) }
}

// sticky returns a Shard that sends all sessions to one random server, whatever their keys.
func sticky() func(key string, n int) int {
	lot := rand.Uint64()
	return func(_ string, n int) int { return int(lot % uint64(n)) }
}
