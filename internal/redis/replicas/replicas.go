// Package replicas waits until replicas have received a write.
//
// WAIT alone does not do that. Since Redis 7.2, and in every Valkey, it waits for the last
// command of its own connection that replicas received. Behind a read, or a write that
// changed nothing, that may be a command of an hour ago: WAIT returns at once, although no
// replica has the later writes of other connections. So a write that replicas always
// receive is sent before it, in the same pipeline:
//
//	SETNX k v     0: another client set it a moment ago, and no replica has it yet
//	EVAL mark     INCR K:waits
//	WAIT 1 200    a replica that has the mark has k, too
//
// The mark is a script because a full server refuses INCR. PUBLISH would be cheaper (0.5
// instead of 3 us of the server's time), but users would need a permission for a channel,
// and the nodes of a Cluster do not send it to their replicas.
//
// All of Millrace waits for replicas by calling [Confirm]; a test looks for others.
package replicas

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// Key is the key of the counter that [Confirm] leaves on a server.
func Key(base string) string { return base + ":waits" }

// Confirm sends commands to a master and waits, for timeout at most, until so many
// replicas have everything that was written there before and by them. It returns the
// commands' results and how many replicas have it, or why that is not known.
func Confirm(ctx context.Context, c rueidis.CoreClient, base string, replicas int, timeout time.Duration,
	cmds ...rueidis.Completed,
) (results []rueidis.RedisResult, have int, err error) {
	n := len(cmds)
	results = c.DoMulti(ctx, append(slices.Clip(cmds), mark(c, base), wait(c, replicas, timeout))...)
	have, err = waited(results[n], results[n+1])
	return results[:n], have, err
}

// mark sends the whole script because EVALSHA might not find it.
func mark(c rueidis.CoreClient, base string) rueidis.Completed {
	return c.B().Eval().Script(library.Script("mark").Source()).Numkeys(1).Key(base).Build()
}

func wait(c rueidis.CoreClient, replicas int, timeout time.Duration) rueidis.Completed {
	return c.B().Wait().Numreplicas(int64(replicas)).Timeout(max(1, timeout.Milliseconds())).Build()
}

// waited returns the reply of WAIT. It means nothing if the mark failed, or is only queued
// in a transaction.
func waited(mark, wait rueidis.RedisResult) (have int, err error) {
	_, err = mark.AsInt64()
	if err == nil {
		var count int64
		if count, err = wait.AsInt64(); err == nil {
			return int(count), nil
		}
	}
	return 0, fmt.Errorf("the replicas were not waited for: %w", err)
}

// Copies says which replicas have received a write.
type Copies struct {
	Have   int      // replicas that count
	Others []string // addresses of linked replicas that do not count
}

// ConfirmAmong is Confirm if not every replica counts. ROLE reports the offset of each
// replica, by the address that the master knows:
//
//	EVAL mark
//	ROLE        the master's offset, at the mark or a little further
//	WAIT 1 200
//	ROLE        each replica's offset
//
// WAIT may have counted others. It is then sent again, for as many more.
func ConfirmAmong(ctx context.Context, c rueidis.CoreClient, base string, counts func(ip, port string) bool, replicas int, timeout time.Duration,
	cmds ...rueidis.Completed,
) (results []rueidis.RedisResult, copies Copies, err error) {
	until, sent := time.Now().Add(timeout), len(cmds)
	for others := 0; ; others = len(copies.Others) {
		n := len(cmds)
		all := c.DoMulti(ctx, append(slices.Clip(cmds),
			mark(c, base), c.B().Role().Build(), wait(c, replicas+others, time.Until(until)), c.B().Role().Build())...)
		if results == nil {
			results, cmds = all[:sent], nil
		}
		count, err := waited(all[n], all[n+2])
		if err == nil {
			copies, err = among(all[n+1], all[n+3], counts)
		}
		if err != nil || copies.Have >= replicas || count < replicas+others || time.Now().After(until) {
			return results, copies, err
		}
	}
}

// among compares the replies of ROLE before and after the wait.
func among(before, after rueidis.RedisResult, counts func(ip, port string) bool) (copies Copies, err error) {
	reached, _, err := role(before)
	if err != nil {
		return copies, err
	}
	_, list, err := role(after)
	if err != nil {
		return copies, err
	}
	for _, replica := range list {
		fields, err := replica.AsStrSlice()
		if err != nil {
			return copies, err
		}
		var offset int64
		if len(fields) == 3 {
			_, err = fmt.Sscan(fields[2], &offset)
		}
		switch {
		case len(fields) != 3 || err != nil:
			return copies, fmt.Errorf("ROLE describes a replica as %q", fields)
		case !counts(fields[0], fields[1]):
			copies.Others = append(copies.Others, net.JoinHostPort(fields[0], fields[1]))
		case offset >= reached:
			copies.Have++
		}
	}
	return copies, nil
}

// role returns the offset of a master, and its replicas.
func role(reply rueidis.RedisResult) (offset int64, replicas []rueidis.RedisMessage, err error) {
	fields, err := reply.ToArray()
	switch {
	case err != nil:
		return 0, nil, err
	case len(fields) != 3:
		return 0, nil, errors.New("the server is no master any more")
	}
	if offset, err = fields[1].AsInt64(); err == nil {
		replicas, err = fields[2].ToArray()
	}
	return offset, replicas, err
}

// Names resolves the names of hosts: a master knows its replicas by the addresses that
// they connect from. The zero value works. It is safe for concurrent use.
type Names struct {
	mu    sync.Mutex
	hosts map[string]resolved
}

type resolved struct {
	ips   []string
	until time.Time
}

// How long a resolved name is cached, and how long resolving may take.
const (
	nameTTL     = time.Minute
	nameTimeout = 200 * time.Millisecond
)

// Match reports whether addr is the address of ip and port. If a name cannot be resolved,
// its last addresses count.
func (n *Names) Match(addr, ip, port string) bool {
	host, own, err := net.SplitHostPort(addr)
	if err != nil || own != port {
		return false
	}
	if host == ip {
		return true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		b, err := netip.ParseAddr(ip)
		return err == nil && a.Unmap() == b.Unmap()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.hosts[host]
	if time.Now().After(known.until) {
		ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
		defer cancel()
		if ips, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
			known.ips = ips
		}
		known.until = time.Now().Add(nameTTL)
		if n.hosts == nil {
			n.hosts = map[string]resolved{}
		}
		n.hosts[host] = known
	}
	return slices.Contains(known.ips, ip)
}
