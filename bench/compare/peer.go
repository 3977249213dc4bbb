package main

import (
	"context"
	"os/exec"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/redis/retry"
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
	queuesName string // the table's name for that

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

// loops calls do in so many goroutines, again and again until the context ends. After an error it
// waits for a moment: the server restarts.
func loops(ctx context.Context, goroutines int, do func(ctx context.Context, goroutine int) error) error {
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(ctx, i); err != nil {
					retry.Sleep(ctx, streamRetry)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// peers are all systems, in the order of the table.
func peers() []*peer {
	return []*peer{millracePeer, streamPeer, asynqPeer, bullmqPeer, riverPeer}
}

// variants are used otherwise than the systems are at their best. Only some measurements have them.
func variants() []*peer {
	return []*peer{millraceCallsPeer, asynqDefaultPeer, asynqQuickPeer, replicatePeer}
}

// find returns the peer or variant of that name, or nil.
func find(name string) *peer {
	all := slices.Concat(peers(), variants())
	i := slices.IndexFunc(all, func(p *peer) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}
