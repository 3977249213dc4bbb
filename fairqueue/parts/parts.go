package parts

import (
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/shuffleshard"
)

// Defaults and bounds.
const (
	defaultPerTenant = 2
	defaultTimeout   = time.Second
	maxParts         = 256
)

// Part is one of the queues that a Queue is made of.
type Part struct {
	Client rueidis.Client
	Name   string // of the fairqueue

	// Draining takes no more messages, and its messages are read. Set it in all processes
	// before the part leaves. Defaults to false.
	Draining bool
}

// On returns n parts on one client, for a Redis Cluster or a fleet. Their names are NAME/0,
// NAME/1 and so on, and each has a hash tag of its own, so they lie in different slots or
// tags: on average evenly on the servers, but not exactly for few parts. With four times as
// many parts as servers the fullest server has about half more than its share.
func On(client rueidis.Client, name string, n int) []Part {
	parts := make([]Part, n)
	for i := range parts {
		parts[i] = Part{Client: client, Name: name + "/" + strconv.Itoa(i)}
	}
	return parts
}

// Across returns a part of the same name on each client, for servers that know nothing of each
// other.
func Across(name string, clients ...rueidis.Client) []Part {
	parts := make([]Part, len(clients))
	for i, client := range clients {
		parts[i] = Part{Client: client, Name: name}
	}
	return parts
}

// Config configures a Queue. Parts must be set, the same in all processes.
type Config struct {
	// Parts are the parts, 1 to 256, in the same order in all processes. New ones go to the
	// end: each tenant keeps its parts, or changes one of them for a new one.
	Parts []Part

	// PerTenant is how many parts a tenant has, at most all. Defaults to 2.
	PerTenant int

	// Timeout is for how long a write waits for a part. Defaults to 1 s.
	Timeout time.Duration

	// Queue configures each part. Its Logger is also that of the Queue.
	Queue fairqueue.Config
}

// Queue is a queue of several parts. It is safe for concurrent use.
type Queue struct {
	cfg   Config
	parts []*part
	log   *slog.Logger
	turn  atomic.Uint64 // counts reads, which begin with one part after the other

	workers workers
}

// New returns the queue of parts. It does not ask Redis. Errors: [millrace.ErrBadArgument],
// [millrace.ErrBadName].
func New(cfg Config) (*Queue, error) {
	bad := millrace.ErrBadArgument
	switch {
	case len(cfg.Parts) < 1 || len(cfg.Parts) > maxParts:
		return nil, bad.Errorf("a queue has 1 to %d parts, not %d", maxParts, len(cfg.Parts))
	case cfg.PerTenant < 0:
		return nil, bad.Errorf("PerTenant is negative: %d", cfg.PerTenant)
	case cfg.Timeout < 0:
		return nil, bad.Errorf("Timeout is negative: %s", cfg.Timeout)
	}
	if cfg.PerTenant == 0 {
		cfg.PerTenant = defaultPerTenant
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	q := &Queue{cfg: cfg, log: cfg.Queue.Logger}
	if q.log == nil {
		q.log = slog.Default()
	}
	taking := 0
	for i, p := range cfg.Parts {
		for j, other := range cfg.Parts[:i] {
			if other.Name == p.Name && other.Client == p.Client {
				return nil, bad.Errorf("parts %d and %d are the same queue, %q", j, i, p.Name)
			}
		}
		queue, err := fairqueue.New(p.Client, p.Name, cfg.Queue)
		if err != nil {
			return nil, err
		}
		q.parts = append(q.parts, &part{index: i, queue: queue, draining: p.Draining, timeout: cfg.Timeout, log: q.log})
		if !p.Draining {
			taking++
		}
	}
	if taking == 0 {
		return nil, bad.Errorf("all parts are draining, so none takes messages")
	}
	return q, nil
}

// Parts returns the queue of each part, for calls that this package does not have, such as
// browsing, retrying, and listing, redriving and purging dead messages. A message's id in a Queue is that
// in its part, behind the part's index and a dot: "3." for Parts()[3].
func (q *Queue) Parts() []*fairqueue.Queue {
	queues := make([]*fairqueue.Queue, len(q.parts))
	for i, p := range q.parts {
		queues[i] = p.queue
	}
	return queues
}

// PartsOf returns the indexes of a tenant's parts, in no order of preference.
func (q *Queue) PartsOf(tenant string) []int {
	list := q.ranked(tenant)
	indexes := make([]int, len(list))
	for i, p := range list {
		indexes[i] = p.index
	}
	return indexes
}

// ranked returns the parts that take messages of a tenant. shuffleshard ranks all parts, so
// that a part that drains is replaced by the next one.
func (q *Queue) ranked(tenant string) []*part {
	list := make([]*part, 0, q.cfg.PerTenant)
	for _, i := range shuffleshard.Get(len(q.parts), len(q.parts), tenant) {
		if p := q.parts[i]; !p.draining && len(list) < q.cfg.PerTenant {
			list = append(list, p)
		}
	}
	return list
}

// mark puts the part's index in front of an id or a receipt.
func (p *part) mark(text string) string { return strconv.Itoa(p.index) + "." + text }

// find returns the part of an id or a receipt, and the part's own form of it.
func (q *Queue) find(what, text string) (*part, string, error) {
	index, rest, found := strings.Cut(text, ".")
	i, err := strconv.Atoi(index)
	if !found || err != nil || i < 0 || i >= len(q.parts) || strconv.Itoa(i) != index {
		return nil, "", millrace.ErrBadArgument.Errorf("not %s of this queue: %.60q", what, text)
	}
	return q.parts[i], rest, nil
}

// group returns the indexes of ids or receipts, by part.
func (q *Queue) group(what string, texts []string) (map[*part][]int, error) {
	groups := map[*part][]int{}
	for i, text := range texts {
		p, _, err := q.find(what, text)
		if err != nil {
			return nil, err
		}
		groups[p] = append(groups[p], i)
	}
	return groups, nil
}
