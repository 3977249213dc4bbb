package scatter

import (
	"embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/script"
)

// MaxName is the longest name of a group or a key, in bytes.
const MaxName = 512

//go:embed *.lua
var folder embed.FS

// library holds the scripts of a group.
var library = script.Load(folder, "K:")

// Server is one of the servers over which values are scattered: a redis-server, or a
// partition of a fleet.
type Server struct {
	// Name is what the server is called in errors and results. It must be its own.
	// Defaults to the address of Option, or to the position in the list.
	Name string

	// Client is the way to it. It stays the caller's. Defaults to one by Option.
	Client rueidis.Client

	// Option says how to connect to it. Nothing connects before something is to be sent
	// there. Used if there is no Client.
	Option rueidis.ClientOption

	// Drain has sessions go to the other servers, while this one is still read: it is to
	// be left. [Scatter.Left] says when it may. Defaults to false.
	Drain bool
}

// Clients returns servers that are called 0, 1 and so on, such as the partitions of a
// fleet.
func Clients(clients ...rueidis.Client) []Server {
	servers := make([]Server, len(clients))
	for i, c := range clients {
		servers[i] = Server{Name: fmt.Sprint(i), Client: c}
	}
	return servers
}

// Config is how this process uses a group of servers. The zero value works.
type Config struct {
	// Group is the name that the side keys have. All processes that share values must
	// have the same. Defaults to "main".
	Group string

	// Shard says to which of n servers a session with a shard key goes. All processes
	// may have different ones. Defaults to RingHash.
	Shard Shard

	// Timeout is for how long one server is waited for, within the deadline of the call.
	// A gather that needs several calls to a server waits for each. Defaults to 1 second.
	Timeout time.Duration

	// MaxMembers is how many members of one set or sorted set, and entries of one list,
	// a gather holds in memory, all servers together. Defaults to 100,000.
	MaxMembers int

	// Gzip has the bodies of list entries compressed where that makes them shorter.
	// Readers understand both. Defaults to false.
	Gzip bool

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict what was
	// counted, for numbers that may be too low or, after a repeat, too high. Defaults to
	// off: nothing is written to such a server.
	AllowEvictable bool

	// Logger is told what becomes of the counters of a Tally that cannot be written, and
	// what servers say about eviction. Defaults to [slog.Default].
	Logger *slog.Logger

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// Defaults of Config.
const (
	DefaultGroup      = "main"
	DefaultTimeout    = time.Second
	DefaultMaxMembers = 100_000
)

// Scatter writes values to one of several servers, and reads them from all. It is safe
// for concurrent use. Close it.
type Scatter struct {
	cfg     Config
	base    string // of the side keys
	servers []*server
	writers []*server // those that are not drained
	scripts *script.Library
}

// New returns a group of servers. It connects to none. The list may grow at any time;
// what is on a server that is not in it is not read. Errors: [millrace.ErrBadName], [millrace.ErrBadArgument].
func New(servers []Server, cfg Config) (*Scatter, error) {
	if cfg.Group == "" {
		cfg.Group = DefaultGroup
	}
	if err := names.Check(errName, "name of a group", cfg.Group, MaxName); err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("there is no server to write to")
	}
	if cfg.Timeout < 0 || cfg.MaxMembers < 0 {
		return nil, millrace.ErrBadArgument.Errorf("Timeout and MaxMembers cannot be negative")
	}
	if cfg.Shard == nil {
		cfg.Shard = RingHash
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxMembers == 0 {
		cfg.MaxMembers = DefaultMaxMembers
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Scatter{cfg: cfg, base: "mr:scatter:{" + cfg.Group + "}", scripts: library}
	seen := map[string]bool{}
	for i, srv := range servers {
		if srv.Name == "" {
			srv.Name = fmt.Sprint(i)
			if srv.Client == nil && len(srv.Option.InitAddress) > 0 {
				srv.Name = srv.Option.InitAddress[0]
			}
		}
		if err := names.Check(errName, "name of a server", srv.Name, MaxName); err != nil {
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

// CheckKey returns the [millrace.ErrBadName] with which every call refuses that name of a value, and
// nil for one that can be had. It is for programs that look at what they were given
// before they connect.
func CheckKey(key string) error { return names.CheckText(errName, "name of a value", key, MaxName) }

// Servers returns the names of the servers, in their order.
func (s *Scatter) Servers() []string {
	list := make([]string, len(s.servers))
	for i, srv := range s.servers {
		list[i] = srv.Name
	}
	return list
}

// Close closes the connections that were opened here. Nothing is sent after it.
func (s *Scatter) Close() {
	for _, srv := range s.servers {
		srv.close()
	}
}
