package failover

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// keepEvery is how many beats are written between two reports to the directory.
const keepEvery = 10

// beats has the newest beat of each partition that an agent knows.
type beats struct {
	mu     sync.Mutex
	newest directory.Beats
}

func (b *beats) of(id int) members.Beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest[id]
}

func (b *beats) saw(id int, beat members.Beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest[id] = b.newest[id].Newer(beat)
}

// merge takes over newer beats from another place, and returns all beats known then.
func (b *beats) merge(known directory.Beats) directory.Beats {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := directory.Beats{}
	for id, beat := range known {
		b.newest[id] = b.newest[id].Newer(beat)
	}
	for id, beat := range b.newest {
		if beat != (members.Beat{}) {
			all[id] = beat
		}
	}
	return all
}

// beat writes a beat into the master of each partition every second, and tells the directory the
// newest every ten seconds, until ctx ends.
func (a *Agent) beat(ctx context.Context) {
	known := false // whether the directory has told the beats that earlier leaders knew
	for n := 0; ; n++ {
		began := time.Now()
		m := a.present.Load()
		if !known || n%keepEvery == 0 {
			known = a.keepBeats(ctx) || known
		}
		if m != nil && known {
			a.beatAll(ctx, m)
		}
		if !retry.Sleep(ctx, members.BeatInterval-time.Since(began)) {
			return
		}
	}
}

// keepBeats exchanges the newest beats with the directory.
func (a *Agent) keepBeats(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, members.BeatInterval)
	defer cancel()
	known, err := a.dir.Beats(ctx)
	if err != nil {
		a.cfg.Logger.WarnContext(ctx, "the agent cannot read the newest beats from the directory, and writes none before it can", "error", err)
		return false
	}
	if all := a.beats.merge(known); len(all) > 0 {
		err = a.dir.KeepBeats(ctx, all)
	}
	return err == nil
}

// beatAll writes a beat into each master that the last probe found as the map has it. One that is
// fenced, or that has too few replicas to take writes, refuses it: nothing else is written there
// either.
func (a *Agent) beatAll(ctx context.Context, m *directory.Map) {
	ctx, cancel := context.WithTimeout(ctx, members.BeatInterval/2)
	defer cancel()
	var writing sync.WaitGroup
	for _, p := range m.Partitions {
		h := a.watch.of(p.Master.Addr)
		if p.ReadOnly || !h.seen || !h.report.Master || restarted(p.Master, h.report) || !whole(h.report, m.Fleet, p.ID) {
			continue
		}
		writing.Go(func() {
			next := members.Beat{Epoch: p.Epoch, Count: a.beats.of(p.ID).Count + 1}
			if wrote, err := a.servers.Beat(ctx, p.Master.Addr, m.Fleet, p.ID, h.report.Run, next); err == nil {
				a.beats.saw(p.ID, wrote)
			}
		})
	}
	writing.Wait()
}

// newestBeat returns the newest beat of a partition that this agent, the directory or a member knows.
func (a *Agent) newestBeat(ctx context.Context, m *directory.Map, id int, reports map[string]members.Report) (members.Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	known, err := a.dir.Beats(ctx)
	if err != nil {
		return members.Beat{}, err
	}
	for _, report := range reports {
		if report.Identity == members.Identity(m.Fleet, id) {
			a.beats.saw(id, report.Beat)
		}
	}
	if all := a.beats.merge(known); !maps.Equal(all, known) {
		err = a.dir.KeepBeats(ctx, all) // for a person who decides, and for the next agent
	}
	return a.beats.of(id), err
}
