package top

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

// notice is a line about something that needs a person.
type notice struct {
	text string
	tone tone
}

// notices are what is wrong, the worst first.
func (m *model) notices() []notice {
	var worst, causes, rest []notice
	for _, n := range m.view.Server.Nodes {
		if nearlyFull(n) {
			worst = append(worst, notice{fmt.Sprintf("server %s is nearly full: %s of %s", printable(n.Addr), readable.Bytes(n.Memory), readable.Bytes(n.MaxMemory)), bad})
		}
	}
	if m.view.Away() == nil {
		for _, t := range m.view.Troubles {
			what := string(t.Kind)
			if t.Name != "" {
				what += " " + name(t.Name)
			}
			worst = append(worst, notice{printable(what + " cannot be read: " + t.Err.Error()), bad})
		}
	}
	for _, s := range m.view.Queues {
		switch state, tone := stateOf(s); state {
		case "unread":
			worst = append(worst, notice{fmt.Sprintf("queue %s has no reader: %s, the oldest %s", name(s.Name),
				waits(s.Waiting), readable.Duration(s.OldestAge)), tone})
		case "paused":
			if s.Waiting > 0 {
				rest = append(rest, notice{fmt.Sprintf("queue %s is paused: %s", name(s.Name), waits(s.Waiting)), tone})
			}
		}
		causes = append(causes, culprits(s)...)
		if s.OverdueSchedules > 0 {
			rest = append(rest, notice{fmt.Sprintf("queue %s: %s late", name(s.Name), readable.Count(s.OverdueSchedules, "schedule")), warning})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(m.view.LeftOut)) {
		n := m.view.LeftOut[kind]
		rest = append(rest, notice{fmt.Sprintf("%s of the kind %s are not shown", readable.Number(n), kind), warning})
	}
	return slices.Concat(worst, causes, rest)
}

func waits(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return readable.Number(n) + " messages wait"
}

const (
	manyWaiting  = 100 // messages, below which nobody floods
	slowHandling = time.Second
)

// culprits names the tenant that has nearly all waiting messages, and the one that has most
// handlers for long, with what the others wait meanwhile.
func culprits(s fairqueue.Stats) []notice {
	var all []notice
	for _, f := range s.Flows {
		if f.Tenant == "" || f.Paused { // a stream or an account; what is paused waits for a person
			continue
		}
		others := "nobody else waits"
		if n, oldest := waitingBeside(s, f); n > 0 {
			others = fmt.Sprintf("others wait %s at most", readable.Duration(oldest))
		}
		who := fmt.Sprintf("%s: %s", name(s.Name), document.OfOwner(ownerOf(f)))
		if s.Waiting >= manyWaiting && f.Waiting*10 >= s.Waiting*9 {
			all = append(all, notice{fmt.Sprintf("%s floods: %s of %s waiting; %s", who, readable.Number(f.Waiting), readable.Number(s.Waiting), others), warning})
		}
		if s.Capacity > 0 && f.InFlight*2 > s.Capacity && f.Handling >= slowHandling {
			all = append(all, notice{fmt.Sprintf("%s is slow: %d of %s, %s each; %s", who, f.InFlight, readable.Count(s.Capacity, "handler"),
				readable.Duration(f.Handling), others), warning})
		}
	}
	return all
}

// waitingBeside returns how many tenants besides one wait, and how long the head of one of them
// does, at most, of those that Stats shows. What is paused or asleep waits for its own reasons.
func waitingBeside(s fairqueue.Stats, than fairqueue.FlowStats) (n int, oldest time.Duration) {
	for _, f := range s.Flows {
		if f.Tenant != "" && f.Waiting > 0 && !f.Paused && !f.NotBefore.After(s.At) && ownerOf(f) != ownerOf(than) {
			n, oldest = n+1, max(oldest, f.OldestAge)
		}
	}
	return n, oldest
}
