package api

import (
	"context"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/tracker"
)

func (a *API) routeTrackers() {
	register(a, ops.ListTrackers, func(ctx context.Context, _ *ops.Nothing) (ops.Trackers, error) {
		names, missing, err := a.namesOf(ctx, tracker.List)
		return ops.Trackers{Trackers: names, Incomplete: missing}, err
	})
	ask(a, a.openTracker, ops.AskTracker)
	tell(a, a.openTracker, ops.AddToTracker)
	ask(a, a.openTracker, ops.GetTrackerStats)
	ask(a, a.openTracker, ops.DeleteTracker)
}

// openTracker returns the tracker that a request is about. It needs no source to answer.
func (a *API) openTracker(_ context.Context, in hasName) (*tracker.Tracker, error) {
	return a.trackers.get(in.Structure(), func() (*tracker.Tracker, error) {
		return tracker.New(a.cfg.Client, in.Structure(), tracker.Config{Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks})
	})
}
