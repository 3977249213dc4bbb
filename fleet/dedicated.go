package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Dedicated lends fn a connection of its own, see Dedicate.
func (c *client) Dedicated(fn func(rueidis.DedicatedClient) error) error {
	d, cancel := c.Dedicate()
	defer cancel()
	return fn(d)
}

// Dedicate lends a connection to the master of the first command's tag. All commands
// must have the same tag; those without a key, such as MULTI, go with it. WaitReplicas
// applies to writes, and to a transaction when it is executed. The connection fails when
// the partition gets another master.
func (c *client) Dedicate() (rueidis.DedicatedClient, func()) {
	d := &dedicated{c: c}
	return d, d.Close
}

// dedicated is a connection whose first command selects the partition.
type dedicated struct {
	c *client

	mu     sync.Mutex
	tag    string
	bound  target
	inner  rueidis.DedicatedClient // nil before the first command
	give   func()
	open   bool // whether a transaction is open
	failed bool // whether a command had an error
	closed bool
}

func (d *dedicated) B() rueidis.Builder { return d.c.B() }

func (d *dedicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return d.DoMulti(ctx, cmd)[0]
}

func (d *dedicated) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if len(multi) == 0 {
		return nil
	}
	inner, t, err := d.bind(ctx, multi)
	if err != nil {
		return all(len(multi), err)
	}
	// An open transaction executes nothing, and would only queue a WAIT.
	need := 0
	if !d.queues(multi) && (slices.ContainsFunc(multi, mayWrite) || slices.ContainsFunc(multi, executes)) {
		need = t.p.f.cfg.WaitReplicas
	}
	results := t.send(ctx, inner, false, need, multi)
	if slices.ContainsFunc(results, func(r rueidis.RedisResult) bool { return r.Error() != nil && !rueidis.IsRedisNil(r.Error()) }) {
		d.mu.Lock()
		d.failed = true
		d.mu.Unlock()
	}
	return results
}

// queues reports whether a transaction is open after the commands.
func (d *dedicated) queues(multi []rueidis.Completed) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cmd := range multi {
		switch strings.ToUpper(cmd.Commands()[0]) {
		case "MULTI":
			d.open = true
		case "EXEC", "DISCARD":
			d.open = false
		}
	}
	return d.open
}

// executes reports whether a command executes a transaction.
func executes(cmd rueidis.Completed) bool { return strings.EqualFold(cmd.Commands()[0], "EXEC") }

// bind returns the connection, which the first command selects, and a target with the
// permission to write.
func (d *dedicated) bind(ctx context.Context, multi []rueidis.Completed) (rueidis.DedicatedClient, target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, target{}, rueidis.ErrDedicatedClientRecycled
	}
	tag, known := d.tag, d.inner != nil
	for i := range multi {
		next, err := d.c.tag(multi[i].Commands())
		switch {
		case errors.Is(err, ErrNoTag):
			// A command without a key goes with the others.
		case err != nil:
			return nil, target{}, err
		case known && next != tag:
			return nil, target{}, ErrMixedTags.Errorf("a dedicated connection is for one tag")
		default:
			tag, known = next, true
		}
	}
	if !known {
		return nil, target{}, ErrNoTag.Errorf("the first command on a dedicated connection has no key")
	}
	t, err := d.c.locateOne(ctx, tag, true)
	if err != nil {
		return nil, target{}, err
	}
	if err := t.p.refuseWrite(multi, t.p.f.cfg.WaitReplicas); err != nil {
		return nil, target{}, err
	}
	if d.inner == nil {
		d.inner, d.give = t.p.master().waiting().Dedicate()
		d.bound, d.tag = t, tag
	}
	if t.p.ID != d.bound.p.ID || t.p.Epoch != d.bound.p.Epoch {
		return nil, target{}, ErrUnavailable.Errorf("the connection was to a master that has been replaced")
	}
	return d.inner, t, nil
}

// Receive works for the clients of partitions only.
func (d *dedicated) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	return d.c.Receive(ctx, subscribe, fn)
}

// SetPubSubHooks is refused: a fleet has no channels.
func (d *dedicated) SetPubSubHooks(rueidis.PubSubHooks) <-chan error { return refused() }

// SetOnInvalidations is refused: a fleet tracks no keys.
func (d *dedicated) SetOnInvalidations(func([]rueidis.RedisMessage)) <-chan error { return refused() }

func refused() <-chan error {
	failed := make(chan error, 1)
	failed <- ErrUnsupported.Errorf("a fleet has no channels and tracks no keys")
	close(failed)
	return failed
}

// Close gives the connection back, or closes it after an error: the server may be fenced,
// and then rueidis panics when a connection is given back (see members.InRun).
func (d *dedicated) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed || d.inner == nil:
	case d.failed:
		d.inner.Close()
	default:
		d.give()
	}
	d.closed = true
}
