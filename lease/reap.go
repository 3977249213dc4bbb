package lease

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// reapScan is how many keys, of any kind, one slice looks at.
const reapScan = 200

// ReapJob returns the job that removes abandoned leases: those whose deadline
// came more than an hour ago and that nobody took over. They are in nobody's way
// but take memory; what was released leaves by itself.
//
// There is no index: a zset of deadlines would lie in another cluster slot than
// the leases, and would cost every refresh a second write. A slice looks at about
// 200 keys, of any kind, and the next one goes on where it ended.
func (l *Locker) ReapJob() millrace.Job {
	r := &reaper{locker: l}
	return millrace.Job{Name: "lease.reap", Slice: r.slice}
}

// reaper goes round the masters' keys.
type reaper struct {
	locker *Locker

	mu     sync.Mutex
	node   string // its address
	cursor uint64
}

func (r *reaper) slice(ctx context.Context) (millrace.Progress, error) {
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
		page, err = script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
			return node.Do(ctx, node.B().Scan().Cursor(cursor).Match(keyPrefix+"*").Count(reapScan).Build()).AsScanEntry()
		})
		if err != nil {
			return millrace.Idle, err
		}
	}
	reaped := int64(0)
	for _, key := range page.Elements {
		if !isBaseKey(key) {
			continue
		}
		reply, err := r.locker.call(ctx, r.locker.scripts.reap, key)
		if ctx.Err() != nil {
			return millrace.Idle, context.Cause(ctx)
		}
		if err != nil {
			continue // a key that is no lease must not keep the others
		}
		if n, err := reply.ToInt64(); err == nil {
			reaped += n
		}
	}
	r.move(addr, page.Cursor)
	switch {
	case reaped == 0:
		return millrace.Idle, nil
	case page.Cursor == 0:
		return millrace.Worked, nil
	}
	return millrace.Full, nil
}

// place returns where to go on: on the node of the last slice, or on the next
// one in the order of their addresses.
func (r *reaper) place() (rueidis.Client, string, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.locker.run.Client.Nodes()
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

func (r *reaper) move(addr string, cursor uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node, r.cursor = addr, cursor
}

// isMaster reports whether a node takes writes. A server that does not know its
// role is alone and a master.
func isMaster(ctx context.Context, node rueidis.Client) (bool, error) {
	role, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
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
