package devfleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace"
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
	cfg := redisproc.Config{Binary: f.cfg.Binary, Dir: f.folder.of(s), TCP: true}
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
	for i, s := range servers {
		if err := f.folder.create(s); err != nil {
			return errors.Join(err, f.discard(servers[:i]))
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
		err = errors.Join(err, f.folder.remove(s))
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

// ErrFolderInUse means that a folder has files of a fleet. Nothing was started.
var ErrFolderInUse = &millrace.Error{
	Code: "exists",
	Hint: "Use another folder, or remove it: a fleet on one machine begins empty each time.",
}

// folder is where a fleet's servers work.
type folder struct {
	path  string
	given bool // by the caller: it is not removed
}

// directoryFolder is the folder of the directory.
const directoryFolder = "directory"

// claim takes a folder for a fleet, a new one if none is given.
func claim(given string) (folder, error) {
	if given == "" {
		path, err := os.MkdirTemp("", "millrace-fleet-")
		return folder{path: path}, err
	}
	path, err := filepath.Abs(given)
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return folder{}, err
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if node, _ := filepath.Match("node-*", e.Name()); node || e.Name() == directoryFolder {
			return folder{}, ErrFolderInUse.Errorf("there is a fleet's %s in %s", e.Name(), path)
		}
	}
	return folder{path: path, given: true}, err
}

// of returns the folder of a server.
func (f folder) of(s Server) string {
	if s.Role == Directory {
		return filepath.Join(f.path, directoryFolder)
	}
	return filepath.Join(f.path, s.Node, fmt.Sprintf("partition-%d", s.Partition))
}

// create makes the folder of a server, which must not exist.
func (f folder) create(s Server) error {
	path := f.of(s)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return ErrFolderInUse.Errorf("there is a fleet's folder already: %s", path)
	}
	return err
}

// remove removes the folder of a server, and that of its node if it is empty then.
func (f folder) remove(s Server) error {
	path := f.of(s)
	err := removeAll(path)
	if err == nil && s.Role != Directory {
		_ = os.Remove(filepath.Dir(path)) // fails if others are there
	}
	return err
}

// release removes the folder unless it is the caller's.
func (f folder) release() error {
	if f.given {
		return nil
	}
	return removeAll(f.path)
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
