package devfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// Role is a server's role at its start. A failover changes the master; the directory knows
// the present one.
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
	Partition int             // NoPartition for the directory
	Node      string          // empty for the directory
	Addr      string          // HOST:PORT
	Proc      *redisproc.Proc // to be killed, paused and restarted; Stop ends it
}

// String says which server it is.
func (s Server) String() string {
	if s.Role == Directory {
		return "the directory"
	}
	return fmt.Sprintf("the member of partition %d on %s", s.Partition, s.Node)
}

// describe returns the data servers of partitions with the numbers from first on and
// members on these nodes.
func describe(first int, placement [][]string) []Server {
	var servers []Server
	for i, nodes := range placement {
		role := Master
		for _, node := range nodes {
			servers = append(servers, Server{Role: role, Partition: first + i, Node: node})
			role = Replica
		}
	}
	return servers
}

// config says how to run a server.
func (f *Fleet) config(s Server) redisproc.Config {
	cfg := redisproc.Config{Binary: f.cfg.Binary, Dir: f.folder(s), TCP: true}
	if s.Role == Directory {
		cfg.AOF, cfg.Args = true, []string{"--appendfsync", "always"}
		return cfg
	}
	cfg.MaxMemory, cfg.AOF = f.cfg.MaxMemory, f.cfg.AOF
	cfg.Args = []string{
		"--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no", // the boot fence
		"--min-replicas-max-lag", "2",
		"--repl-diskless-sync", "yes", // else Redis 6.2 leaves a file for each new replica, and loads it when restarted
		"--repl-diskless-sync-delay", "0", // a new replica need not wait for others
	}
	return cfg
}

// launch starts servers in parallel, and sets their Proc and Addr. If one fails, all
// end.
func (f *Fleet) launch(ctx context.Context, servers []Server) error {
	for _, s := range servers {
		if err := os.MkdirAll(f.folder(s), 0o700); err != nil {
			return errors.Join(err, f.discard(servers))
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var starts sync.WaitGroup
	for i := range servers {
		s, cfg := &servers[i], f.config(servers[i])
		starts.Go(func() {
			p, err := redisproc.Start(ctx, cfg)
			if err != nil {
				cancel(fmt.Errorf("devfleet: %s: %w", s, err)) // the first error counts: it ends the other starts
				return
			}
			s.Proc, s.Addr = p, p.Addr()
		})
	}
	starts.Wait()
	if err := context.Cause(ctx); err != nil {
		return errors.Join(err, f.discard(servers))
	}
	return nil
}

// discard ends servers and removes their folders.
func (f *Fleet) discard(servers []Server) error {
	err := end(servers)
	for _, s := range servers {
		err = errors.Join(err, removeAll(f.folder(s)))
	}
	return err
}

// end ends those servers that were started. It kills them: they have nothing to save, and
// a master that is asked to end waits for its replicas.
func end(servers []Server) (err error) {
	for _, s := range servers {
		if s.Proc != nil {
			err = errors.Join(err, s.Proc.Kill(), s.Proc.Stop())
		}
	}
	return err
}

// folder returns the folder of a server.
func (f *Fleet) folder(s Server) string {
	if s.Role == Directory {
		return filepath.Join(f.dir, "directory")
	}
	return filepath.Join(f.dir, s.Node, fmt.Sprintf("partition-%d", s.Partition))
}

// removeAll removes a folder. The child of a killed server may write a snapshot there for
// a moment more.
func removeAll(path string) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := os.RemoveAll(path)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Since(began) > 2*time.Second {
			return err
		}
	}
}
