package devfleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
)

// NoReplicas is for Config.Replicas.
const NoReplicas = -1

// Config describes the fleet to start. The zero value works.
type Config struct {
	Binary     string             // the server to run; defaults to the one of redisproc.Find
	Dir        string             // where the fleet has its folder, which Stop removes; defaults to that for temporary files
	Nodes      int                // node-0, node-1 and so on; defaults to 3
	Partitions int                // at first; defaults to 4
	Replicas   int                // of each partition; defaults to 1, or NoReplicas
	Settings   directory.Settings // of the fleet
	MaxMemory  string             // of each data server, such as "64mb"; defaults to no limit
	AOF        bool               // data servers have an append-only file

	// Directory keeps the map, and stays open. Defaults to a Redis server of the fleet's
	// own.
	Directory *directory.Directory

	// RestartAfter is how long after its end a data server is restarted, again and again if that
	// fails. Defaults to never.
	RestartAfter time.Duration
}

// ErrStopped means that Stop has ended the fleet.
var ErrStopped = errors.New("devfleet: the fleet was stopped, start another one")

// Fleet is a fleet of servers that run on this machine. It is safe for concurrent use.
type Fleet struct {
	cfg       Config
	dir       string // its folder
	nodes     []string
	directory Server

	life     context.Context // ends with Stop
	end      context.CancelFunc
	restarts sync.WaitGroup

	changing sync.Mutex // held by AddPartition and Stop
	stopped  bool

	mu      sync.Mutex
	servers []Server // by partition, the first master before its replicas
}

// Start starts a fleet and returns when all its partitions serve. The context bounds the
// start only; the fleet lives until Stop, or until this process ends.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	cfg.Nodes, cfg.Partitions = cmp.Or(cfg.Nodes, 3), cmp.Or(cfg.Partitions, 4)
	cfg.Replicas = max(0, cmp.Or(cfg.Replicas, 1))
	f := &Fleet{cfg: cfg}
	for i := range cfg.Nodes {
		f.nodes = append(f.nodes, fmt.Sprintf("node-%d", i))
	}
	placement, err := plan.Place(f.nodes, cfg.Partitions, cfg.Replicas+1)
	if err != nil {
		return nil, err
	}
	if f.cfg.Binary == "" {
		if f.cfg.Binary, err = redisproc.Find(); err != nil {
			return nil, err
		}
	}
	if f.dir, err = os.MkdirTemp(cfg.Dir, "millrace-fleet-"); err != nil {
		return nil, err
	}
	servers := describe(0, placement)
	if cfg.Directory == nil {
		servers = append(servers, Server{Role: Directory, Partition: NoPartition})
	}
	if err := f.launch(ctx, servers); err != nil {
		return nil, errors.Join(err, removeAll(f.dir))
	}
	members := servers
	if cfg.Directory == nil {
		last := len(servers) - 1
		members, f.directory = servers[:last], servers[last]
	}
	f.life, f.end = context.WithCancel(context.Background())
	dir, done, err := f.dial()
	if err == nil {
		err = f.grow(ctx, dir, members, grow.Init)
		done()
	}
	if err != nil {
		f.end()
		return nil, errors.Join(err, end(servers), removeAll(f.dir))
	}
	f.adopt(members)
	return f, nil
}

// DirectoryAddr returns the address of the directory, HOST:PORT, empty if it is the
// caller's.
func (f *Fleet) DirectoryAddr() string { return f.directory.Addr }

// URL returns how to connect to the fleet: fleet://HOST:PORT.
func (f *Fleet) URL() string { return "fleet://" + f.directory.Addr }

// Dir returns the folder of the servers.
func (f *Fleet) Dir() string { return f.dir }

// Directory returns the server of the directory.
func (f *Fleet) Directory() Server { return f.directory }

// Servers returns the data servers by partition, the first master of each before its
// replicas.
func (f *Fleet) Servers() []Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.servers)
}

// AddPartition starts the servers of n more partitions, and returns when they take tags,
// which takes a few seconds: an agent must run. Partitions that are there
// do not move. If it fails when the directory lists the servers already, they keep running,
// since clients may use them, and an agent finishes the adding.
func (f *Fleet) AddPartition(ctx context.Context, n int) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.stopped {
		return ErrStopped
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.life, func() { cancel(ErrStopped) })()

	dir, done, err := f.dial()
	if err != nil {
		return err
	}
	defer done()
	present, err := dir.Confirm(ctx, 0)
	if err != nil {
		return err
	}
	placement, err := plan.PlaceMore(f.nodes, placementOf(present), n, f.cfg.Replicas+1)
	if err != nil {
		return err
	}
	servers := describe(len(present.Partitions), placement)
	if err := f.launch(ctx, servers); err != nil {
		return err
	}
	err = f.grow(ctx, dir, servers, grow.Add)
	if err != nil && !known(dir, servers[0].Addr) {
		return errors.Join(err, f.discard(servers))
	}
	f.adopt(servers)
	return err
}

// Stop ends all servers, and removes their folder. An
// AddPartition that is under way fails. A second call does nothing.
func (f *Fleet) Stop() error {
	f.end()
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.stopped {
		return nil
	}
	f.stopped = true
	f.restarts.Wait()
	servers := f.Servers()
	if f.cfg.Directory == nil {
		servers = append(servers, f.directory)
	}
	return errors.Join(end(servers), removeAll(f.dir))
}

// dial opens the directory. Call done when it is not needed any more.
func (f *Fleet) dial() (dir *directory.Directory, done func(), err error) {
	if dir := f.cfg.Directory; dir != nil {
		return dir, func() {}, nil
	}
	if dir, err = directory.Dial(rueidis.ClientOption{InitAddress: []string{f.directory.Addr}}); err != nil {
		return nil, nil, err
	}
	return dir, dir.Close, nil
}

// stepTimeout is how long one step of making a fleet may take: starting servers may keep
// all CPUs of this machine busy.
const stepTimeout = 10 * time.Second

// grow makes servers part of the fleet. It restarts those that end meanwhile: package
// grow shuts each one down, to see that it comes back with its boot fence.
func (f *Fleet) grow(ctx context.Context, dir *directory.Directory, servers []Server,
	change func(context.Context, *directory.Directory, []grow.Partition, grow.Config) (*directory.Map, error),
) error {
	restarting, stop := context.WithCancel(ctx)
	var restarts sync.WaitGroup
	defer restarts.Wait()
	defer stop()
	var partitions []grow.Partition
	for _, s := range servers {
		restarts.Go(func() {
			// If a restart fails, package grow misses the server.
			for ended(restarting, s.Proc.Done()) && s.Proc.Restart(restarting) == nil {
			}
		})
		member := directory.Member{Addr: s.Addr, Node: s.Node}
		if s.Role == Master {
			partitions = append(partitions, grow.Partition{Master: member})
			continue
		}
		last := &partitions[len(partitions)-1]
		last.Replicas = append(last.Replicas, member)
	}
	_, err := change(ctx, dir, partitions, grow.Config{
		Option:   rueidis.ClientOption{Dialer: net.Dialer{Timeout: stepTimeout}, ConnWriteTimeout: stepTimeout},
		Settings: f.cfg.Settings,
	})
	return err
}

// known reports whether clients may know a server by now.
func known(dir *directory.Directory, addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m, err := dir.Confirm(ctx, 0)
	return err != nil || slices.ContainsFunc(m.Partitions, func(p directory.Partition) bool { return p.Master.Addr == addr })
}

// placementOf returns the nodes of each partition's members.
func placementOf(m *directory.Map) [][]string {
	placement := make([][]string, len(m.Partitions))
	for i, p := range m.Partitions {
		for _, member := range p.Members() {
			placement[i] = append(placement[i], member.Node)
		}
	}
	return placement
}

// adopt adds servers to those that Servers returns and Stop ends.
func (f *Fleet) adopt(servers []Server) {
	f.mu.Lock()
	f.servers = append(f.servers, servers...)
	f.mu.Unlock()
	if f.cfg.RestartAfter > 0 {
		for _, s := range servers {
			f.restarts.Go(func() { f.restart(s) })
		}
	}
}

// restart restarts a server each time after its end, unless the caller does.
func (f *Fleet) restart(s Server) {
	for done := s.Proc.Done(); ended(f.life, done); done = s.Proc.Done() {
		for s.Proc.Done() == done && retry.Sleep(f.life, f.cfg.RestartAfter) {
			if s.Proc.Done() == done {
				_ = s.Proc.Restart(f.life) // if it fails, it is tried again
			}
		}
	}
}

// ended waits until a process has ended, and reports whether ctx has not.
func ended(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
