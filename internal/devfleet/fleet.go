package devfleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/retry"
)

// ErrStopped says that the fleet was ended by Stop.
var ErrStopped = errors.New("devfleet: the fleet was stopped, start another one")

// Fleet is a fleet of servers that run on this machine. All methods may be called
// concurrently.
type Fleet struct {
	cfg       Config
	folder    folder
	nodes     []string
	pins      *pins
	directory Server

	life     context.Context // ends with Stop
	end      context.CancelFunc
	watchers sync.WaitGroup

	changing sync.Mutex // held by AddPartition and Stop
	stopped  bool

	mu      sync.Mutex
	servers []Server // by partition, the first master before its replicas
}

// Start starts a fleet and returns when all its partitions serve. The context
// bounds the start only; the fleet lives until Stop, or until this process ends.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	cfg = cfg.withDefaults()
	f := &Fleet{cfg: cfg, nodes: nodeNames(cfg.Nodes)}
	placement, err := plan.Place(f.nodes, cfg.Partitions, cfg.Replicas+1)
	if err != nil {
		return nil, err
	}
	if f.cfg.Binary == "" {
		if f.cfg.Binary, err = redisproc.Find(); err != nil {
			return nil, err
		}
	}
	if f.folder, err = claim(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Pin {
		f.pins = newPins(redisproc.CPUs("self"), f.nodes)
	}
	servers := append([]Server{{Role: Directory, Partition: NoPartition}}, describe(0, placement)...)
	if err := f.launch(ctx, servers); err != nil {
		return nil, errors.Join(err, f.folder.release())
	}
	f.directory, f.servers = servers[0], servers[1:]
	if err := f.init(ctx); err != nil {
		return nil, errors.Join(err, f.discard(servers), f.folder.release())
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.watch(servers)
	return f, nil
}

// DirectoryAddr returns where the directory listens, as HOST:PORT.
func (f *Fleet) DirectoryAddr() string { return f.directory.Addr }

// URL returns how to connect to the fleet: fleet://HOST:PORT.
func (f *Fleet) URL() string { return "fleet://" + f.directory.Addr }

// Dir returns the folder in which the servers work.
func (f *Fleet) Dir() string { return f.folder.path }

// Directory returns the server of the directory.
func (f *Fleet) Directory() Server { return f.directory }

// Servers returns the data servers: by partition, and of each the one that was
// master first.
func (f *Fleet) Servers() []Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.servers)
}

// adopt makes servers part of the fleet.
func (f *Fleet) adopt(servers []Server) {
	f.mu.Lock()
	f.servers = append(f.servers, servers...)
	f.mu.Unlock()
	f.watch(servers)
}

// watch tells of each server when its process has ended, and restarts it if that is
// wanted.
func (f *Fleet) watch(servers []Server) {
	for _, s := range servers {
		f.watchers.Go(func() {
			for done := s.Proc.Done(); f.awaitExit(done); {
				f.cfg.Exited(s)
				done = f.awaitRestart(s, done)
			}
		})
	}
}

// awaitExit returns when one life of a process has ended, and reports whether the
// fleet lives on.
func (f *Fleet) awaitExit(done <-chan struct{}) bool {
	select {
	case <-done:
	case <-f.life.Done():
	}
	return f.life.Err() == nil
}

// awaitRestart returns the end of the process's next life when somebody has begun
// that, as it does itself after a while, or when the fleet was stopped.
func (f *Fleet) awaitRestart(s Server, last <-chan struct{}) <-chan struct{} {
	due := time.Now().Add(f.cfg.RestartAfter)
	for s.Proc.Done() == last && retry.Sleep(f.life, 50*time.Millisecond) {
		if f.cfg.RestartAfter == 0 || time.Now().Before(due) || s.Proc.Done() != last {
			continue
		}
		if err := s.Proc.Restart(f.life); f.life.Err() == nil {
			f.cfg.Restarted(s, err)
		}
		due = time.Now().Add(f.cfg.RestartAfter)
	}
	return s.Proc.Done()
}

// Stop ends all servers and removes the folder, unless it was given by
// Config.Dir. An AddPartition that is under way fails. Calling it again does
// nothing.
func (f *Fleet) Stop() error {
	f.end()
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.stopped {
		return nil
	}
	f.stopped = true
	f.watchers.Wait()
	return errors.Join(end(append(f.Servers(), f.directory)), f.folder.release())
}
