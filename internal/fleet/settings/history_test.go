package settings

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// memory is a directory that keeps all maps that there ever were.
type memory struct {
	directory.Directory // the rest is not asked for

	mu   sync.Mutex
	maps []stored
}

type stored struct {
	at time.Time
	m  *directory.Map
}

func newMemory(s directory.Settings) *memory {
	return &memory{maps: []stored{{time.Now(), &directory.Map{Epoch: 1, Settings: s}}}}
}

func (d *memory) Confirm(ctx context.Context, _ int64) (*directory.Map, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.maps[len(d.maps)-1].m.Clone(), context.Cause(ctx)
}

func (d *memory) Change(ctx context.Context, epoch int64, next *directory.Map) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case d.maps[len(d.maps)-1].m.Epoch != epoch:
		return directory.ErrConflict
	}
	d.maps = append(d.maps, stored{time.Now(), next})
	return nil
}

func (d *memory) Lead(ctx context.Context, _ string, _ time.Duration) (bool, time.Duration, error) {
	return false, 24 * time.Hour, context.Cause(ctx)
}

// history changes settings at random for a while, while agents change the map for other
// reasons, and returns all maps.
func history(seed uint64) []stored {
	rng := rand.New(rand.NewPCG(seed, 0))
	some := func() (s directory.Settings) {
		s.ViewTTL = time.Duration(20+rng.IntN(3000)) * time.Millisecond
		s.ReplyTimeout = time.Duration(10+rng.IntN(3000)) * time.Millisecond
		s.PlacementTTL = s.ViewTTL + time.Duration(rng.IntN(8000))*time.Millisecond
		return s
	}
	first := some()
	dir := newMemory(first)
	ctx, stop := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() {
		for retry.Sleep(ctx, time.Duration(1+seed%7)*time.Second) {
			m, err := dir.Confirm(ctx, 0)
			if err == nil {
				_, _ = replace(ctx, dir, m, func(*directory.Map) {})
			}
		}
	})
	for range 2 + rng.IntN(3) {
		wanted := some()
		edit := func(s *directory.Settings) { *s = wanted }
		switch rng.IntN(3) {
		case 0: // back to what there was
			wanted = first
		case 1: // one setting
			edit = func(s *directory.Settings) { s.ReplyTimeout = wanted.ReplyTimeout }
		}
		timeout := time.Minute
		if rng.IntN(2) == 0 {
			timeout = time.Duration(rng.IntN(8000)) * time.Millisecond // it is cut off
		}
		short, cancel := context.WithTimeout(ctx, timeout)
		_, _ = Change(short, dir, edit, Config{})
		cancel()
		if rng.IntN(2) == 0 {
			retry.Sleep(ctx, time.Duration(rng.IntN(5000))*time.Millisecond)
		}
	}
	stop()
	others.Wait()
	return dir.maps
}

// moment is a map as clients and agents use it.
type moment struct {
	at           time.Duration // when it was published
	until        time.Duration // when the next one was
	may, waits   directory.Settings
	grace, usage time.Duration // usage is until when a client may act by it
}

// moments returns a history in the form for check. Permissions and waits say what is made
// of a map.
func moments(maps []stored, permissions, waits func(m *directory.Map) directory.Settings) []moment {
	made := make([]moment, len(maps))
	for i, s := range maps {
		w := waits(s.m)
		made[i] = moment{at: s.at.Sub(maps[0].at), until: time.Hour, may: permissions(s.m), waits: w, grace: (w.ViewTTL + w.ReplyTimeout) * 11 / 10}
		if i > 0 {
			made[i-1].until = made[i].at
		}
	}
	for i := range made {
		made[i].usage = made[i].until + made[i].may.ViewTTL
	}
	return made
}

// check returns what goes wrong in a history for some client and some agent, at the worst of
// times, empty for nothing. It ignores the 10 % that agents add for clocks.
func check(all []moment) string {
	for j := range all {
		for i := range j {
			// An agent publishes map j, waits, and promotes a replica. A client writes to the old
			// master by map i.
			if end := all[i].usage + all[i].may.ReplyTimeout; end > all[j].at+all[j].grace {
				return fmt.Sprintf("a write by map %d can succeed until %v, and a master is replaced by map %d at %v", i, end, j, all[j].at+all[j].grace)
			}
		}
	}
	for i := range all { // the map by which an agent marks a tag, at x
		marks := all[i].usage + all[i].may.ReplyTimeout
		for k := i; k < len(all); k++ { // the one by which it then waits
			for l := range all { // the one by which a client writes
				x := max(all[i].at, all[k].at, all[l].at)
				if x <= marks && x <= all[l].usage && all[l].may.ReplyTimeout > all[k].waits.ReplyTimeout*11/10 {
					return fmt.Sprintf("a write by map %d is in flight when a tag is copied by map %d", l, k)
				}
				for j := range all { // the one by which the client looked the tag up before, at y
					life := all[j].may.PlacementTTL
					x := max(all[i].at, all[k].at, all[j].at, all[l].at-life)
					y := min(x, all[j].usage)
					write := min(y+life, all[l].usage)
					if x > marks || y < all[j].at || write < max(y, all[l].at) {
						continue
					}
					forgotten := x + (all[k].waits.PlacementTTL+all[k].waits.ReplyTimeout)*11/10
					if end := write + all[l].may.ReplyTimeout; end > forgotten {
						return fmt.Sprintf("a write by map %d to a place that was looked up by map %d can succeed until %v, and the tag is forgotten by map %d at %v", l, j, end, k, forgotten)
					}
				}
			}
		}
	}
	return ""
}

// shorten leaves out a part of the wait of each change.
func shorten(maps []stored, wait func(announced *directory.Map) time.Duration) []stored {
	maps = slices.Clone(maps)
	for i := range maps {
		if maps[i].m.Next != nil || i == 0 || maps[i-1].m.Next == nil || maps[i].m.Settings != maps[i-1].m.Next.Settings {
			continue
		}
		began := slices.IndexFunc(maps, func(s stored) bool { return s.m.Epoch == maps[i-1].m.Next.Since })
		early := maps[i].at.Sub(maps[began].at) - wait(maps[began].m)
		for j := range maps { // what was between moves to the end of the wait, at most
			switch {
			case j >= i:
				maps[j].at = maps[j].at.Add(-early)
			case j > began && maps[j].at.After(maps[i].at.Add(-early)):
				maps[j].at = maps[i].at.Add(-early)
			}
		}
	}
	return maps
}

// TestHistories: whatever settings follow each other, and wherever a change is cut off, no
// client may do anything that an agent does not wait for. Without a part of the protection
// one may.
func TestHistories(t *testing.T) {
	t.Parallel()
	permissions, waits := (*directory.Map).Permissions, (*directory.Map).Waits
	present := func(m *directory.Map) directory.Settings { return m.Settings.Effective() }
	next := func(m *directory.Map) directory.Settings {
		if m.Next != nil {
			return m.Next.Settings.Effective()
		}
		return m.Settings.Effective()
	}
	broken := map[string]string{}
	sabotages := map[string]func(maps []stored) []moment{
		"nothing is announced":            func(maps []stored) []moment { return moments(maps, next, next) },
		"clients keep the present ones":   func(maps []stored) []moment { return moments(maps, present, waits) },
		"clients keep the next ones":      func(maps []stored) []moment { return moments(maps, next, waits) },
		"agents wait by the present ones": func(maps []stored) []moment { return moments(maps, permissions, present) },
		"agents wait by the next ones":    func(maps []stored) []moment { return moments(maps, permissions, next) },
		"a change is completed at once": func(maps []stored) []moment {
			return moments(shorten(maps, func(*directory.Map) time.Duration { return 0 }), permissions, waits)
		},
		"a change waits for no placements": func(maps []stored) []moment {
			return moments(shorten(maps, (*directory.Map).Grace), permissions, waits)
		},
	}
	synctest.Test(t, func(t *testing.T) {
		completed := 0
		for seed := range uint64(300) {
			maps := history(seed)
			if wrong := check(moments(maps, permissions, waits)); wrong != "" {
				for _, s := range maps {
					t.Logf("%v: map %d: %+v, next %+v", s.at.Sub(maps[0].at), s.m.Epoch, s.m.Settings, s.m.Next)
				}
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			completed += len(maps)
			for name, sabotage := range sabotages {
				broken[name] = cmp.Or(broken[name], check(sabotage(maps)))
			}
		}
		t.Logf("%d maps", completed)
	})
	for name := range sabotages {
		if broken[name] == "" {
			t.Errorf("nothing goes wrong if %s", name)
		}
		t.Logf("if %s: %s", name, broken[name])
	}
}
