package replicas

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Names knows the addresses of hosts that a list calls by their names: a master knows
// its replicas by the addresses that they come from. The zero value works. It is safe
// for concurrent use.
type Names struct {
	mu    sync.Mutex
	hosts map[string]resolved
}

type resolved struct {
	ips   []string
	until time.Time
}

// For how long what was resolved is used, and how long resolving may take.
const (
	nameLife  = time.Minute
	nameLimit = 200 * time.Millisecond
)

// is reports whether a host has an address. It asks the resolver now and then; if
// that fails, what was known counts.
func (n *Names) is(host, ip string) bool {
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
		ctx, cancel := context.WithTimeout(context.Background(), nameLimit)
		defer cancel()
		if ips, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
			known.ips = ips
		}
		known.until = time.Now().Add(nameLife)
		if n.hosts == nil {
			n.hosts = map[string]resolved{}
		}
		n.hosts[host] = known
	}
	return slices.Contains(known.ips, ip)
}

// Match reports whether what a master knows by ip and port listens at addr.
func (n *Names) Match(addr, ip, port string) bool {
	host, own, err := net.SplitHostPort(addr)
	return err == nil && own == port && n.is(host, ip)
}
