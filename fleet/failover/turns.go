package failover

import (
	"context"
	"sync"
)

// Turns lets one thing at a time happen on each node: a copy for a replica, or a
// snapshot. Both fork a server, and two forks at once may need twice the memory.
// The zero value is ready.
type Turns struct {
	mu    sync.Mutex
	nodes map[string]chan struct{}
}

// Take waits for the turn of a node, and returns what ends it. Nodes without a name
// have no turns to wait for.
func (t *Turns) Take(ctx context.Context, node string) (end func(), err error) {
	if node == "" {
		return func() {}, nil
	}
	t.mu.Lock()
	if t.nodes == nil {
		t.nodes = map[string]chan struct{}{}
	}
	turn := t.nodes[node]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.nodes[node] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
