package policy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// node is the watch's knowledge of one node. The zero value is unknown.
type node struct {
	answer                 // the last one
	at       time.Time     // of the last probe's end
	failures int           // probes without an answer since the last one
	pause    time.Duration // before the next probe, counted from at
}

// due reports whether to probe a node whose answers are valid for age.
func (n *node) due(now time.Time, age time.Duration) bool {
	if n.failures > 0 {
		age = n.pause
	}
	return now.Sub(n.at) >= age
}

// learn stores the result of a probe. A silent node keeps its state.
func (n *node) learn(a answer, fresh time.Duration) {
	if a.state == unknown {
		n.failures++
		n.pause = retry.Policy{Base: fresh / 60, Max: fresh / 4}.Pause(n.failures)
	} else {
		*n = node{answer: a, pause: fresh}
	}
	n.at = time.Now()
}

// refresh starts a refresh in the background unless one is running, and returns a channel
// that is closed at its first verdict.
func (w *Watch) refresh(ctx context.Context, age time.Duration) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.decided == nil {
		decided := make(chan struct{})
		w.decided = decided
		go func() {
			w.run(context.WithoutCancel(ctx), age, sync.OnceFunc(func() { close(decided) }))
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided = nil
		}()
	}
	return w.decided
}

// run probes the nodes whose answers are older than age. It makes the verdict when all nodes
// that were not silent before have answered, or after a limit, and again with each later
// answer.
func (w *Watch) run(ctx context.Context, age time.Duration, decided func()) {
	ctx, cancel := script.Within(ctx, w.limits.probe)
	defer cancel()
	clients := w.client.Nodes()
	maps.DeleteFunc(w.nodes, func(addr string, _ *node) bool { return clients[addr] == nil })
	probes, awaited := 0, make(map[string]bool)
	answers := make(chan answer, len(clients))
	for addr, client := range clients {
		n := w.nodes[addr]
		if n == nil {
			n = &node{}
			w.nodes[addr] = n
		}
		if now := time.Now(); n.due(now, age) {
			if n.failures == 0 {
				awaited[addr] = true
			}
			n.at, n.pause = now, w.limits.probe
			probes++
			go func() { answers <- w.cfg.probe(ctx, addr, client, len(clients) == 1) }()
		}
	}
	enough := time.After(w.limits.wait)
	for {
		if len(awaited) == 0 {
			w.decide(ctx)
			decided()
		}
		if probes == 0 {
			return
		}
		select {
		case a := <-answers:
			probes--
			delete(awaited, a.addr)
			w.nodes[a.addr].learn(a, w.limits.fresh)
		case <-enough:
			clear(awaited)
		}
	}
}

// decide makes the verdict from the states of the nodes.
func (w *Watch) decide(ctx context.Context) {
	now := time.Now()
	v := &verdict{at: now, due: now.Add(w.limits.fresh)}
	var worst answer
	for _, addr := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[addr]
		if next := n.at.Add(n.pause); next.Before(v.due) {
			v.due = next
		}
		if n.state > worst.state {
			worst = n.answer
		}
	}
	v.state = worst.state
	refusal := millrace.ErrEvictable.Errorf("the server may evict %s before its time: its maxmemory-policy is %s", w.cfg.One, worst.policy)
	if w.cfg.Volatile {
		refusal = refusal.WithHint("Set maxmemory-policy to noeviction, or accept the risk with AllowEvictable.")
	}
	if v.state == evictable && !w.cfg.Allow {
		v.refusal = refusal
	}
	before := w.verdict.Load()
	switch log := w.cfg.Logger; {
	case before != nil && before.state == v.state:
	case v.state == evictable && (before != nil || w.cfg.Allow):
		log.WarnContext(ctx, w.cfg.Many+" are not safe here", "server", worst.addr, "error", refusal)
	case v.state == unsaid:
		log.WarnContext(ctx, "the server does not show whether it may evict "+w.cfg.Many+
			"; make sure that its maxmemory-policy is "+w.cfg.fine(), "server", worst.addr, "error", worst.err)
	case v.state == safe && before != nil && before.state > safe:
		log.InfoContext(ctx, w.cfg.Many+" are safe here again: the maxmemory-policy of every server is "+w.cfg.fine())
	}
	w.verdict.Store(v)
}

// fine names the policies that do not evict the keys at risk.
func (c *Config) fine() string {
	if c.Volatile {
		return "noeviction"
	}
	return "noeviction or volatile-*"
}
