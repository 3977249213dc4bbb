package api

import (
	"context"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/pinned"
)

func (a *API) routePinned() {
	register(a, ops.ListPinned, func(ctx context.Context, _ *ops.Nothing) (ops.Namespaces, error) {
		names, missing, err := a.namesOf(ctx, pinned.List)
		return ops.Namespaces{Namespaces: names, Incomplete: missing}, err
	})
	ask(a, a.openPinned, ops.GetPinned)
	on(a, ops.SetPinned.Row, a.openPinned, func(ctx context.Context, p ops.OnePinned, in *pinnedWith[ops.ToPin]) (ops.FieldsSet, error) {
		return ops.SetPinned.Do(ctx, p, in.Body)
	})
	on(a, ops.ExpirePinned.Row, a.openPinned, func(ctx context.Context, p ops.OnePinned, in *pinnedWith[ops.Pin]) (ops.Exists, error) {
		return ops.ExpirePinned.Do(ctx, p, in.Body)
	})
	on(a, ops.DeletePinned.Row, a.openPinned, func(ctx context.Context, p ops.OnePinned, _ *ops.Pinned) (ops.Deleted, error) {
		return ops.DeletePinned.Do(ctx, p.Of, []string{p.Name})
	})
}

type pinnedWith[B any] struct {
	ops.Pinned

	Body B
}

// openPinned returns the pinned value that a request is about. A server that may evict its keys is
// accepted, and the logger warns of it.
func (a *API) openPinned(ctx context.Context, in hasName) (one ops.OnePinned, err error) {
	var namespace string
	if of, ok := in.(interface {
		Names() (namespace, key string)
	}); ok { // they embed ops.Pinned
		namespace, one.Name = of.Names()
	}
	if namespace == answersNamespace { // with answers to other clients
		return one, millrace.ErrBadName.Errorf("the namespace %q is the service's own", namespace).WithHint("Use another one.")
	}
	one.Of, err = a.pinned.get(namespace, func() (*pinned.Keys, error) {
		return pinned.Open(ctx, a.cfg.Client, namespace, pinned.Config{
			AllowEvictable: true, Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
	return one, err
}
