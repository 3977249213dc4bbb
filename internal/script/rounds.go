package script

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// Rounds goes round the keys of all masters, a slice at a time, for upkeep that
// has no index to look into. It is safe for concurrent use; slices that run at
// the same time may see the same keys.
type Rounds struct {
	Client rueidis.Client
	Match  string // a glob pattern of the keys to see

	// Count is how many keys, of any kind, a slice looks at.
	Count int64

	// Visit does what is due for a key and reports whether there was anything. A
	// key that fails must not keep the others, so its error only counts as
	// nothing done.
	Visit func(ctx context.Context, key string) (bool, error)

	mu     sync.Mutex
	node   string // the address of the last slice's
	cursor uint64
}

// Slice visits the next keys. It is a [millrace.Job]'s.
func (r *Rounds) Slice(ctx context.Context) (millrace.Progress, error) {
	node, addr, cursor := r.place()
	if node == nil {
		return millrace.Idle, nil
	}
	master, err := isMaster(ctx, node)
	if err != nil {
		return millrace.Idle, err
	}
	page := rueidis.ScanEntry{}
	if master {
		page, err = Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
			return node.Do(ctx, node.B().Scan().Cursor(cursor).Match(r.Match).Count(r.Count).Build()).AsScanEntry()
		})
		if err != nil {
			return millrace.Idle, err
		}
	}
	progress := millrace.Idle
	for _, key := range page.Elements {
		done, err := r.Visit(ctx, key)
		if ctx.Err() != nil {
			return millrace.Idle, context.Cause(ctx)
		}
		if err == nil && done {
			progress = millrace.Full
		}
	}
	r.move(addr, page.Cursor)
	if progress == millrace.Full && page.Cursor == 0 {
		progress = millrace.Worked
	}
	return progress, nil
}

// place returns where to go on: on the node of the last slice, or on the next
// one in the order of their addresses.
func (r *Rounds) place() (rueidis.Client, string, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.Client.Nodes()
	addrs := make([]string, 0, len(nodes))
	for addr := range nodes {
		addrs = append(addrs, addr)
	}
	if len(addrs) == 0 {
		return nil, "", 0
	}
	slices.Sort(addrs)
	i, found := slices.BinarySearch(addrs, r.node)
	if found && r.cursor != 0 {
		return nodes[r.node], r.node, r.cursor
	}
	if found {
		i++
	}
	addr := addrs[i%len(addrs)]
	return nodes[addr], addr, 0
}

func (r *Rounds) move(addr string, cursor uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node, r.cursor = addr, cursor
}

// isMaster reports whether a node takes writes. A server that does not know its
// role, like miniredis, is alone and a master.
func isMaster(ctx context.Context, node rueidis.Client) (bool, error) {
	role, err := Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return node.Do(ctx, node.B().Role().Build()).ToArray()
	})
	if _, refused := rueidis.IsRedisErr(err); refused {
		return true, nil
	}
	if err != nil || len(role) == 0 {
		return false, err
	}
	text, err := role[0].ToString()
	return text == "master", err
}
