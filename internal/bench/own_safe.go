package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/replicas"
)

// safeFigures are those of throughput on servers that keep what they have: both sides on the
// same kind.
func safeFigures() (figures []Figure) {
	for _, kind := range []struct {
		name  string
		start func(context.Context) (*safe, error)
	}{
		{"AOF everysec", withAOF},
		{"a replica", withReplica},
	} {
		chosen, err := Choose("queue_cycle", "queue_backlog")
		if err != nil {
			panic(err) // they are figures of this program
		}
		for _, f := range chosen {
			f.Name, f.What = "", f.What+", "+kind.name
			for i, side := range f.Sides {
				f.Sides[i].Measure = onServers(kind.start, side.Measure)
			}
			figures = append(figures, f)
		}
	}
	return figures
}

// safe is a server, and what keeps its data.
type safe struct {
	url   string
	procs []*redisproc.Proc
}

func (s *safe) stop() (err error) {
	for _, proc := range s.procs {
		err = errors.Join(err, proc.Stop())
	}
	return err
}

// withAOF starts a server that writes an append-only file and syncs it each second.
func withAOF(ctx context.Context) (*safe, error) {
	proc, err := redisproc.Start(ctx, redisproc.Config{AOF: true, Args: []string{"--appendfsync", "everysec"}})
	if err != nil {
		return nil, err
	}
	return &safe{url: proc.URL(), procs: []*redisproc.Proc{proc}}, nil
}

// withReplica starts a server that sends what it does to a replica.
func withReplica(ctx context.Context) (*safe, error) {
	master, err := redisproc.Start(ctx, redisproc.Config{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	if err != nil {
		return nil, err
	}
	s := &safe{url: master.URL(), procs: []*redisproc.Proc{master}}
	replica, err := redisproc.Start(ctx, redisproc.Config{TCP: true, Args: []string{"--replicaof", strings.ReplaceAll(master.Addr(), ":", " ")}})
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.procs = append(s.procs, replica)
	return s, nil
}

// replicaTimeout bounds how long a replica takes to follow a server that has nothing.
const replicaTimeout = 20 * time.Second

// follows waits until all replicas of a server have what it has.
func (s *safe) follows(ctx context.Context, c rueidis.Client) error {
	n := len(s.procs) - 1
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, replicaTimeout, errors.New("the replica does not follow"))
	defer cancel()
	for ctx.Err() == nil {
		_, have, err := replicas.Confirm(ctx, c, "first", n, 100*time.Millisecond)
		if err != nil {
			return err
		}
		if have >= n {
			return c.Do(ctx, c.B().Del().Key(replicas.Key("first")).Build()).Error()
		}
	}
	return context.Cause(ctx)
}

// onServers measures on servers of its own.
func onServers(start func(context.Context) (*safe, error), measure Measure) Measure {
	return func(ctx context.Context, at Place) (value float64, err error) {
		servers, err := start(ctx)
		if err != nil {
			return 0, fmt.Errorf("servers of its own: %w", err)
		}
		defer func() { err = errors.Join(err, servers.stop()) }()
		client, err := connect.Open(servers.url)
		if err != nil {
			return 0, err
		}
		defer client.Close()
		if err := servers.follows(ctx, client); err != nil {
			return 0, err
		}
		at.Client, at.Open = client, func() (rueidis.Client, error) { return connect.Open(servers.url) }
		return measure(ctx, at)
	}
}
