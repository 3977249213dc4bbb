package survey

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/script"
)

// fleet asks all members of the fleet how they are, and the directory what agents
// did. It returns nil unless there is a fleet that answers.
func (r *redisProber) fleet(ctx context.Context) (*FleetView, []Trouble) {
	if r.cfg.Fleet == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*readTimeout, errSilent) // members are waited for, and then the directory
	defer cancel()
	v := &FleetView{}
	var troubles []Trouble
	note := func(what string, err error) {
		if err != nil {
			troubles = append(troubles, Trouble{Kind: Fleet, Name: what, Err: err})
		}
	}
	var err error
	v.Status, err = script.Prompt(ctx, r.cfg.Fleet.Status)
	if err != nil {
		note("", err)
		return nil, troubles
	}
	v.Points = directory.MapOf(r.cfg.Fleet.Client()).Points
	dir := directory.Of(r.cfg.Fleet.Client())
	v.Events, err = script.Prompt(ctx, dir.Events)
	note(FleetEvents, err)
	v.Snapshots, err = script.Prompt(ctx, func(ctx context.Context) (snapshot.Ages, error) {
		return snapshot.Read(ctx, dir)
	})
	note(FleetSnapshots, err)
	return v, troubles
}
