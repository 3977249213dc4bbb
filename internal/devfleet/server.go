package devfleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/redisproc"
)

// Role is what a server began as. Failover changes who is master; the directory
// knows who is now.
type Role string

// Roles of servers.
const (
	Master    Role = "master"
	Replica   Role = "replica"
	Directory Role = "directory"
)

// NoPartition is the number of the directory's partition.
const NoPartition = -1

// Server is one process of the fleet.
type Server struct {
	Role      Role
	Partition int    // the number of its partition, NoPartition for the directory
	Node      string // the node on which it is, empty for the directory
	Addr      string // where it listens: HOST:PORT

	// Proc is the process, to be killed, paused and restarted. A data server that is
	// restarted is boot-fenced, and empty if nobody had it save. Stop ends it, the
	// caller need not.
	Proc *redisproc.Proc
}

// describe returns the data servers of partitions that have these numbers from
// first on and members on these nodes.
func describe(first int, placement [][]string) []Server {
	var servers []Server
	for i, nodes := range placement {
		for k, node := range nodes {
			s := Server{Role: Replica, Partition: first + i, Node: node}
			if k == 0 {
				s.Role = Master
			}
			servers = append(servers, s)
		}
	}
	return servers
}

// config says how to run a server.
func (f *Fleet) config(s Server) redisproc.Config {
	cfg := redisproc.Config{Binary: f.cfg.Binary, Dir: f.folder.of(s), TCP: true}
	if s.Role == Directory {
		cfg.AOF = true
		cfg.Args = []string{"--appendfsync", "always"}
		return cfg
	}
	cfg.MaxMemory = f.cfg.MaxMemory
	cfg.Args = append([]string{
		"--replicaof", "127.0.0.1", "1", // the boot fence: nobody listens there
		"--replica-serve-stale-data", "no", // nor is it read before somebody has looked
		"--min-replicas-max-lag", "2",
		"--repl-diskless-sync", "yes", // Redis 6.2 leaves a file for each new replica, and would load it when restarted
		"--repl-diskless-sync-delay", "0", // a new replica need not wait for others
	}, f.pins.take(s)...)
	return cfg
}

// launch starts servers at once, and completes what servers says of them. When one
// cannot be started, all end.
func (f *Fleet) launch(ctx context.Context, servers []Server) error {
	for i, s := range servers {
		if err := f.folder.make(s); err != nil {
			return errors.Join(err, f.discard(servers[:i]))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg     sync.WaitGroup
		once   sync.Once
		failed error // the first one; the others were cut off by it
	)
	for i := range servers {
		s, cfg := &servers[i], f.config(servers[i])
		wg.Go(func() {
			p, err := redisproc.Start(ctx, cfg)
			if err != nil {
				once.Do(func() {
					failed = fmt.Errorf("devfleet: %s: %w", s, err)
					cancel()
				})
				return
			}
			s.Proc, s.Addr = p, p.Addr()
		})
	}
	wg.Wait()
	if failed != nil {
		return errors.Join(failed, f.discard(servers))
	}
	return nil
}

// String says which server it is.
func (s Server) String() string {
	if s.Role == Directory {
		return "the directory"
	}
	return fmt.Sprintf("the member of partition %d on %s", s.Partition, s.Node)
}

// discard ends servers that are of no use, and removes their folders.
func (f *Fleet) discard(servers []Server) error {
	err := end(servers)
	for _, s := range servers {
		err = errors.Join(err, f.folder.unmake(s))
	}
	return err
}

// end ends servers, those that were started.
func end(servers []Server) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		if s.Proc != nil {
			// Nothing is worth saving, and a master that is asked to end waits for its
			// replicas.
			wg.Go(func() { errs[i] = errors.Join(s.Proc.Kill(), s.Proc.Stop()) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
