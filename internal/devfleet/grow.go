package devfleet

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/plan"
)

func (f *Fleet) dial() (*directory.Redis, error) {
	return directory.Dial(rueidis.ClientOption{InitAddress: []string{f.directory.Addr}})
}

// growing says how to make the servers members. It is patient: this machine runs
// all of them and, when they start, may have more to do than it has CPUs.
func (f *Fleet) growing() grow.Config {
	return grow.Config{
		Option:   rueidis.ClientOption{Dialer: net.Dialer{Timeout: stepTimeout}, ConnWriteTimeout: stepTimeout},
		Settings: f.cfg.Settings,
	}
}

// stepTimeout is how long one step of making a fleet may take.
const stepTimeout = 10 * time.Second

// init makes a fleet of the servers.
func (f *Fleet) init(ctx context.Context) error {
	dir, err := f.dial()
	if err != nil {
		return err
	}
	defer dir.Close()
	defer supervise(ctx, f.servers)()
	_, err = grow.Init(ctx, dir, partitions(f.servers), f.growing())
	return err
}

// AddPartition starts the servers of n more partitions, makes them part of the
// fleet and returns when they take tags, which takes a few seconds. Other
// partitions stay where they are. When it fails after the directory was told of the
// servers, they are left to run, since clients may use them; package fleet can
// finish the adding.
func (f *Fleet) AddPartition(ctx context.Context, n int) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.stopped {
		return ErrStopped
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.life, func() { cancel(ErrStopped) })()

	dir, err := f.dial()
	if err != nil {
		return err
	}
	defer dir.Close()
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
	supervised := supervise(ctx, servers)
	_, err = grow.Add(ctx, dir, partitions(servers), f.growing())
	supervised()
	if err != nil && !known(dir, servers[0].Addr) {
		return errors.Join(err, f.discard(servers))
	}
	f.adopt(servers)
	return err
}

// supervise starts servers again that end, until stop is called: package fleet shuts
// each one down, to see that it comes back with its boot fence.
func supervise(ctx context.Context, servers []Server) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for _, s := range servers {
		watching.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-s.Proc.Done():
					// One that cannot be started again is missed by who waits for it.
					if s.Proc.Restart(ctx) != nil {
						return
					}
				}
			}
		})
	}
	return func() { cancel(); watching.Wait() }
}

// known reports whether clients may have been told of a server.
func known(dir directory.Directory, addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m, err := dir.Confirm(ctx, 0)
	return err != nil || slices.ContainsFunc(m.Partitions, func(p directory.Partition) bool {
		return slices.ContainsFunc(p.Members(), func(member directory.Member) bool { return member.Addr == addr })
	})
}

// partitions returns what package fleet is told of servers.
func partitions(servers []Server) []grow.Partition {
	var all []grow.Partition
	for _, s := range servers {
		member := directory.Member{Addr: s.Addr, Node: s.Node}
		if s.Role == Master {
			all = append(all, grow.Partition{Master: member})
			continue
		}
		last := &all[len(all)-1]
		last.Replicas = append(last.Replicas, member)
	}
	return all
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
