package scatter

import (
	"context"
	"embed"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

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
		return nil, millrace.ErrBadArgument.Saying("there is no server to write to")
	}
	if cfg.Timeout < 0 || cfg.MaxMembers < 0 {
		return nil, millrace.ErrBadArgument.Saying("Timeout and MaxMembers cannot be negative")
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
	s := &Scatter{cfg: cfg, base: base(cfg.Group), scripts: library}
	seen := map[string]bool{}
	for i, one := range servers {
		if one.Name == "" {
			one.Name = fmt.Sprint(i)
			if one.Client == nil && len(one.Option.InitAddress) > 0 {
				one.Name = one.Option.InitAddress[0]
			}
		}
		if err := names.Check(errName, "name of a server", one.Name, MaxName); err != nil {
			return nil, err
		}
		if seen[one.Name] {
			return nil, millrace.ErrBadArgument.Saying("two servers are called %q", one.Name)
		}
		if one.Client == nil && len(one.Option.InitAddress) == 0 {
			return nil, millrace.ErrBadArgument.Saying("server %q has neither a Client nor an address", one.Name)
		}
		seen[one.Name] = true
		s.servers = append(s.servers, &server{Server: one})
	}
	return s, nil
}

// Servers returns the names of the servers, in their order.
func (s *Scatter) Servers() []string {
	list := make([]string, len(s.servers))
	for i, one := range s.servers {
		list[i] = one.Name
	}
	return list
}

// Close closes the connections that were opened here. Nothing is sent after it.
func (s *Scatter) Close() {
	for _, one := range s.servers {
		one.close()
	}
}

// on calls one server, which is asked for as long as the timeout says. The error says
// which server it was.
func (s *Scatter) on(ctx context.Context, one *server, call func(context.Context, *script.Runner) (*script.Reply, error)) (*script.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errSilent)
	defer cancel()
	runner, err := one.runner(ctx, s)
	if err == nil {
		var reply *script.Reply
		if reply, err = call(ctx, runner); err == nil {
			return reply, nil
		}
	}
	return nil, fmt.Errorf("server %s: %w", one.Name, err)
}

// server is one of them, and what this process knows of it.
type server struct {
	Server

	run atomic.Pointer[script.Runner] // nil until something is sent there

	dialing sync.Mutex
	ended   bool // nothing is sent any more
}

// runner returns what runs scripts on the server, and connects to it if nobody has.
// A caller whose context ends does not wait for the connection.
func (one *server) runner(ctx context.Context, s *Scatter) (*script.Runner, error) {
	if r := one.run.Load(); r != nil {
		return r, nil
	}
	return script.Prompt(ctx, func(context.Context) (*script.Runner, error) { return one.connect(s) })
}

func (one *server) connect(s *Scatter) (*script.Runner, error) {
	one.dialing.Lock()
	defer one.dialing.Unlock()
	if r := one.run.Load(); r != nil {
		return r, nil
	}
	if one.ended {
		return nil, rueidis.ErrClosing
	}
	client := one.Client
	if client == nil {
		option := one.Option
		option.ForceSingleClient = true
		option.DisableCache = true
		option.DisableRetry = true
		if option.ClientSetInfo == nil {
			option.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
		}
		option.Dialer.Timeout = s.cfg.Timeout
		var err error
		if client, err = rueidis.NewClient(option); client == nil {
			return nil, err
		} // a client that could not connect tries again with the next call
	}
	r := &script.Runner{
		Client: client, Scripts: s.scripts, Hooks: s.cfg.Hooks, Retry: retry.Policy{Patience: s.cfg.Timeout}, Errors: refusals,
	}
	one.run.Store(r)
	return r, nil
}

// close forgets the runner, too: a client of rueidis that once could not connect does so
// again when it is called after its Close.
func (one *server) close() {
	one.dialing.Lock()
	defer one.dialing.Unlock()
	one.ended = true
	if r := one.run.Swap(nil); r != nil && one.Client == nil {
		r.Client.Close()
	}
}
