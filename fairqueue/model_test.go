package fairqueue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/shuffleshard"
)

// The model is a queue as its documentation describes it, in the plainest words.
// No time passes in it: a visibility or a delay is an hour, and a history ends it by telling
// the model and, past the library, the server. TestFairness tests which flow has the next
// turn.

// state is where a message is.
type state string

const (
	gone    state = "gone"
	aside   state = "set aside"
	waiting state = "waiting"
	flying  state = "in flight"
	isDead  state = "dead"
	ghost   state = "cancelled in flight" // until its reader settles it
)

// known is a message as the model has it.
type known struct {
	id       string
	state    state
	tenant   string
	priority int
	cost     int
	flow     string
	made     int    // deliveries that count
	moves    int    // how often it left a place
	receipt  string // of the delivery it is in
	why      string // the last reason
	dedupe   string
	mortal   bool // it has a deadline
	worthNot bool // its deadline has come
	batch    *knownBatch
}

// model is a queue.
type model struct {
	shape    streams
	paused   bool
	attempts int
	most     int // dead messages to keep; 0 for all

	messages map[string]*known              // by id
	dead     []*known                       // in the order of their deaths
	deduped  map[string]string              // dedupe id of a tenant -> message
	stale    map[string]struct{}            // receipts that are not good any more
	failing  map[string]queuestats.Failures // by tenant
	count    queuestats.Counters
	batches  []*knownBatch
}

func newModel(shape streams, attempts int) *model {
	return &model{shape: shape, attempts: attempts, messages: map[string]*known{}, deduped: map[string]string{}, stale: map[string]struct{}{}, failing: map[string]queuestats.Failures{}}
}

// line returns the messages that wait in a flow, in their order.
func (m *model) line(flow string) (line []*known) {
	for _, k := range m.messages {
		if k.state == waiting && k.flow == flow {
			line = append(line, k)
		}
	}
	slices.SortFunc(line, func(a, b *known) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id))
	})
	return line
}

// head returns the first message of a flow that a reader can have.
func (m *model) head(flow string) *known {
	line := m.line(flow)
	return line[slices.IndexFunc(line, func(k *known) bool { return !k.over() })]
}

// mayLieIn reports whether a flow is one of a tenant's in which the fewest wait.
func (m *model) mayLieIn(tenant, flow string) error {
	if m.shape.count == 0 {
		if flow != tenantFlow(tenant) {
			return fmt.Errorf("a message of %s is in flow %s", tenant, flow)
		}
		return nil
	}
	mine, fewest := false, 1<<30
	for _, stream := range shuffleshard.Get(m.shape.count, m.shape.perTenant, tenant) {
		mine = mine || flow == streamFlow(stream)
		fewest = min(fewest, len(m.line(streamFlow(stream))))
	}
	if n := len(m.line(flow)); !mine || n != fewest {
		return fmt.Errorf("a message of %s is in flow %s, in which %d wait, at least %d in those of %v", tenant, flow, n, fewest,
			shuffleshard.Get(m.shape.count, m.shape.perTenant, tenant))
	}
	return nil
}

// leave takes a message from where it is.
func (m *model) leave(k *known) {
	k.moves++
	if k.state == isDead {
		m.dead = slices.DeleteFunc(slices.Clone(m.dead), func(one *known) bool { return one == k })
	}
	if k.receipt != "" {
		m.stale[k.receipt] = struct{}{}
		k.receipt = ""
	}
	k.state = gone
}

// remove forgets a message before it is done, so that it may be written again.
func (m *model) remove(k *known) {
	m.leave(k)
	k.leaveBatch(func(b *Batch) { b.Cancelled++ })
	if m.deduped[k.dedupe] == k.id {
		delete(m.deduped, k.dedupe)
	}
}

func (m *model) moveToDead(k *known) {
	m.leave(k)
	k.leaveBatch(func(b *Batch) { b.Dead++ })
	k.state = isDead
	m.dead = append(m.dead, k)
	m.count.Buried++
	for m.most > 0 && len(m.dead) > m.most {
		m.remove(m.dead[0])
		m.count.Dropped++
	}
}

// giveBack has a message wait again, or die.
func (m *model) giveBack(k *known, delayed bool) {
	switch {
	case k.made >= m.attempts:
		m.moveToDead(k)
	case k.withdrawn():
		m.remove(k)
		m.count.Cancelled++
	case delayed:
		m.leave(k)
		k.state = aside
	default:
		m.leave(k)
		k.state = waiting
	}
}

// fails notes that a delivery of a message failed, which had its consequences.
func (m *model) fails(k *known, reason string) {
	f := m.failing[k.tenant]
	if reason != "" {
		k.why = reason
	}
	f.Tenant, f.Reason, f.Count = k.tenant, cmp.Or(k.why, noReason), f.Count+1
	if k.state == isDead {
		f.Died++
	}
	m.failing[k.tenant] = f
}

// live returns how many messages a reader can have.
func (m *model) live() (n int) {
	for _, k := range m.messages {
		if k.state == waiting && !k.over() {
			n++
		}
	}
	return n
}

// expired reports whether the deadline of one that waits has come, or its batch was cancelled.
func (m *model) expired() bool {
	for _, k := range m.messages {
		if k.state == waiting && k.over() {
			return true
		}
	}
	return false
}

// expire removes those messages that wait and whose deadline has come, or whose batch was cancelled, which the queue has
// noticed: it need not notice before their turn.
func (m *model) expire(noticed func(id string) bool) {
	for _, k := range m.messages {
		switch {
		case k.state != waiting || !k.over() || !noticed(k.id):
		case k.worthNot:
			k.leaveBatch(func(b *Batch) { b.Expired++ })
			m.remove(k)
			m.count.Expired++
		default:
			m.remove(k)
			m.count.Cancelled++
		}
	}
}
