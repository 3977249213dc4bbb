package survey

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	checkInterval = 30 * time.Second
	checkSample   = 100 // tags
)

// checked are the findings of the last check of a fleet.
type checked struct {
	findings []check.Finding
	at       time.Time // zero if there was none
}

// check checks the fleet again if the last time is long ago. Surveys do not overlap.
func (r *redisProber) check(ctx context.Context) checked {
	if time.Since(r.checked.at) >= checkInterval {
		// If it takes too long the findings stay, and their time shows that.
		if found, err := check.Run(ctx, r.cfg.Fleet, check.Config{Sample: checkSample}); err == nil {
			r.checked = checked{found, time.Now()}
		}
	}
	return r.checked
}

// fleet asks all members of the fleet for their state, and the directory for its agents'
// actions. It returns nil unless there is a fleet that answers.
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
	var checking sync.WaitGroup
	defer checking.Wait()
	checking.Go(func() {
		last := r.check(ctx)
		v.Findings, v.Checked = last.findings, last.at
	})
	var err error
	v.Status, err = script.Prompt(ctx, r.cfg.Fleet.Status)
	if err != nil {
		note("", err)
		return nil, troubles
	}
	dir := directory.Of(r.cfg.Fleet.Client())
	v.Events, err = script.Prompt(ctx, dir.Events)
	note(FleetEvents, err)
	v.Snapshots, err = script.Prompt(ctx, func(ctx context.Context) (snapshot.Ages, error) {
		return snapshot.Read(ctx, dir)
	})
	note(FleetSnapshots, err)
	return v, troubles
}
