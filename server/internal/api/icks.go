package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/ops"
)

func (a *API) routeIcks() {
	register(a, ops.ListIcks, func(ctx context.Context, _ *ops.Nothing) (ops.Icks, error) {
		names, missing, err := a.namesOf(ctx, ick.List)
		return ops.Icks{Icks: names, Incomplete: missing}, err
	})
	ask(a, a.openIck, ops.DeleteIck)
	ask(a, a.openIck, ops.GetIckStats)
	tell(a, a.openIck, ops.AddMarks)
	tell(a, a.openIck, ops.ReserveMarks)
	tell(a, a.openIck, ops.CommitMarks)
	tell(a, a.openIck, ops.ExchangeMarks)
	ask(a, a.openIck, ops.ListParked)
	tell(a, a.openIck, ops.RetryParked)
	tell(a, a.openIck, ops.DropParked)
}

// ickUse is a dirty list or a channel, and how to reserve from it.
type ickUse struct {
	name     string
	settle   time.Duration
	backwash bool
}

// openIck returns the dirty list that a request is about.
func (a *API) openIck(_ context.Context, in hasName) (*ick.Ick, error) {
	cfg, use := a.ickConfig(in)
	return a.icks.get(use, func() (*ick.Ick, error) { return ick.New(a.cfg.Client, use.name, cfg) })
}

// ickConfig returns how a request uses a dirty list or a channel.
func (a *API) ickConfig(in hasName) (cfg ick.Config, use ickUse) {
	if with, ok := in.(hasBody); ok {
		if reserves, ok := with.body().(interface{ Config() ick.Config }); ok {
			cfg = reserves.Config()
		}
	}
	cfg.Logger, cfg.Enlister, cfg.Hooks = a.cfg.Logger, a.cfg.Enlister, a.cfg.Hooks
	return cfg, ickUse{in.Structure(), cfg.Settle, cfg.Backwash}
}
