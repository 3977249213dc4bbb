package main

import (
	"context"
	"os/exec"
	"slices"
)

// peer is one of the compared systems.
type peer struct {
	Name     string // in flags and results.json
	Title    string // in the table
	Version  string
	Settings []setting

	postgres   bool   // it keeps its messages in PostgreSQL, else in Redis
	batches    bool   // it has a call that writes many messages
	queues     bool   // it is also measured with a queue for each tenant
	queuesName string // what the table calls that

	// missing says why the system cannot be measured here, or "".
	missing func() string

	// connect makes the system ready in this process. The server may be in use already.
	// It is nil if the system runs in processes of another program.
	connect func(ctx context.Context, j *job) (system, error)

	// command runs a job in a process of another program.
	command func(ctx context.Context, j *job) (*exec.Cmd, error)
}

// setting is one setting of a system, and why it has this value.
type setting struct{ What, Why string }

// system is a peer in the process of a job.
type system interface {
	// write writes the messages in one call. It is called from several goroutines.
	write(ctx context.Context, messages []message) error

	// work handles messages until the context ends.
	work(ctx context.Context, handle func(body string)) error

	close()
}

func always() string { return "" }

// peers are all systems, in the order of the table.
func peers() []*peer {
	return []*peer{millracePeer, streamPeer, asynqPeer, bullmqPeer, riverPeer}
}

// find returns the peer of that name, or nil.
func find(name string) *peer {
	all := peers()
	i := slices.IndexFunc(all, func(p *peer) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}
