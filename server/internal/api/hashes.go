package api

import (
	"context"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/ops"
)

func (a *API) routeHashes() {
	register(a, ops.ListHashes, func(ctx context.Context, _ *ops.Nothing) (ops.Namespaces, error) {
		names, missing, err := a.namesOf(ctx, expiry.List)
		return ops.Namespaces{Namespaces: names, Incomplete: missing}, err
	})
	ask(a, a.openHash, ops.GetHash)
	ask(a, a.openHash, ops.DeleteHash)
	tellHash(a, ops.SetFields)
	tellHash(a, ops.IncrementField)
	tellHash(a, ops.ExpireFields)
	tellHash(a, ops.PersistFields)
	tellHash(a, ops.DeleteFields)
}

type hashedWith[B any] struct {
	ops.Hash

	Body B
}

// openHash returns the hash that a request is about. A server that may evict its keys is
// accepted, and the logger warns of it.
func (a *API) openHash(ctx context.Context, in hasName) (ops.OneHash, error) {
	var namespace, name string
	if of, ok := in.(interface {
		Names() (namespace, hash string)
	}); ok { // they embed ops.Hash
		namespace, name = of.Names()
	}
	hashes, err := a.hashes.get(namespace, func() (*expiry.Hashes, error) {
		return expiry.Open(ctx, a.cfg.Client, namespace, expiry.Config{
			AllowEvictable: true, Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
	return ops.OneHash{Of: hashes, Name: name}, err
}
