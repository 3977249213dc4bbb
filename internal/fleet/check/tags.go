package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/ring"
)

const (
	pageKeys   = 1000 // how many keys a server looks at in one step
	mostPages  = 20   // of one partition, for a sample
	mostListed = 100  // how many tags are reported
)

// tagger looks up where tags are. It only reads, from masters.
type tagger struct {
	f        *facts
	pool     *members.Pool
	ring     *ring.Ring
	progress func(visited, keys int64)

	mu      sync.Mutex
	found   findings
	more    int // tags that were not listed
	checked int
	moving  int           // tags that are being moved or forgotten
	open    map[int]int   // tags that cannot be judged, by the partition that says nothing
	silent  map[int]error // why a partition says nothing
	visited int64
	keys    int64
}

// checkTags looks up tags of all partitions at the same time.
func checkTags(ctx context.Context, f *facts, pool *members.Pool, cfg Config) findings {
	if cfg.Sample == 0 && !cfg.All {
		return nil
	}
	points, err := f.m.Ring()
	t := &tagger{f: f, pool: pool, ring: points, progress: cfg.Progress, open: map[int]int{}, silent: map[int]error{}}
	if err != nil {
		t.found.add(finding.Critical, "ring", Fleetwide, "", "the map has no ring: "+err.Error(), "Restore the directory.")
		return t.found
	}
	each := (cfg.Sample + len(f.m.Partitions) - 1) / len(f.m.Partitions)
	var checking sync.WaitGroup
	for _, p := range f.m.Partitions {
		master := f.master(p.ID)
		if t.keys += keysOf(master); master.err != nil {
			t.silent[p.ID] = master.err
		}
	}
	for _, p := range f.m.Partitions {
		checking.Go(func() { // asked notes why one says nothing
			if cfg.All {
				_ = t.all(ctx, p.ID)
			} else {
				_ = t.sample(ctx, p.ID, each)
			}
		})
	}
	checking.Wait()
	return t.outcome()
}

// keysOf returns how many keys a server has.
func keysOf(m *member) (n int64) {
	_, _ = fmt.Sscanf(m.info["db0"], "keys=%d", &n)
	return n
}

func (t *tagger) outcome() findings {
	for _, id := range slices.Sorted(maps.Keys(t.silent)) {
		t.found.add(finding.Note, "silent", id, "", "its tags, and "+readable.Count(t.open[id], "tag")+" of other partitions, could not be looked up: "+t.silent[id].Error(),
			"Repeat the check when it answers: millrace fleet show.")
	}
	if t.more > 0 {
		t.found.add(finding.Critical, "more", Fleetwide, "", readable.Count(t.more, "more tag")+" like these", "Mend those that are listed, and check again.")
	}
	moving := ""
	if t.moving > 0 {
		moving = fmt.Sprintf(", %s being moved or forgotten", readable.Number(t.moving))
	}
	return t.found.orOK("one home for each of %s%s", readable.Count(t.checked, "tag"), moving)
}

// sample looks up about n tags of a partition. It begins at a random place of the table of
// keys, so a tag with many keys is found more often.
func (t *tagger) sample(ctx context.Context, id, n int) error {
	seen := map[string]bool{}
	var keys []string // of the seen tags
	cursor, wrapped := rand.Uint64()>>16, false
	for range mostPages {
		page, err := t.scan(ctx, id, cursor, max(10, min(pageKeys, n)))
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if tag, ok := tagOf(key); ok && (seen[tag] || len(seen) < n) {
				seen[tag] = true
				keys = append(keys, key)
			}
		}
		if cursor = page.Cursor; cursor == 0 && wrapped || len(seen) >= n {
			break
		}
		wrapped = wrapped || cursor == 0
	}
	return t.check(ctx, id, keys)
}

// all looks up the tags of all keys of a partition. It rests as long as it works.
func (t *tagger) all(ctx context.Context, id int) error {
	for cursor := uint64(0); ; {
		began := time.Now()
		page, err := t.scan(ctx, id, cursor, pageKeys)
		if err == nil {
			err = t.check(ctx, id, page.Elements)
		}
		if err != nil {
			return err
		}
		t.mu.Lock()
		if t.visited += int64(len(page.Elements)); t.progress != nil {
			t.progress(t.visited, max(t.visited, t.keys))
		}
		t.mu.Unlock()
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
		if !retry.Sleep(ctx, time.Since(began)) {
			return context.Cause(ctx)
		}
	}
}

func (t *tagger) scan(ctx context.Context, id int, cursor uint64, count int) (rueidis.ScanEntry, error) {
	return asked(ctx, t, id, func(ctx context.Context, c rueidis.Client) (rueidis.ScanEntry, error) {
		return c.Do(ctx, c.B().Scan().Cursor(cursor).Count(int64(count)).Build()).AsScanEntry()
	})
}

// asked asks the master of a partition. One that did not answer is not asked again.
func asked[T any](ctx context.Context, t *tagger, id int, call func(ctx context.Context, c rueidis.Client) (T, error)) (value T, err error) {
	t.mu.Lock()
	err = t.silent[id]
	t.mu.Unlock()
	if err != nil {
		return value, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errors.New("it does not answer"))
	defer cancel()
	value, err = members.Ask(ctx, t.pool, t.f.m.Partitions[id].Master.Addr, call)
	if err != nil {
		t.mu.Lock()
		t.silent[id] = err
		t.mu.Unlock()
	}
	return value, err
}

// tagOf returns the tag to which a key, or a record, belongs. The fleet's other keys have none.
func tagOf(key string) (tag string, ok bool) {
	if tag, ok = members.RecordedTag(key); ok {
		return tag, true
	}
	if strings.HasPrefix(key, members.Base) && !strings.Contains(key, "{") {
		return "", false
	}
	return fleet.Tag(key), true
}

// check looks up the tags of keys of a partition, and adds findings about those that are not
// as they should be.
func (t *tagger) check(ctx context.Context, id int, keys []string) error {
	seen := map[string]*tagState{}
	for _, key := range keys {
		tag, ok := tagOf(key)
		if !ok {
			continue
		}
		if seen[tag] == nil {
			seen[tag] = &tagState{tag: tag}
		}
		if key != members.RecordKey(tag) {
			seen[tag].key = key
		}
	}
	all := slices.Collect(maps.Values(seen))
	records, err := t.records(ctx, id, all)
	if err != nil {
		return err
	}
	for i, s := range all {
		s.here = records[i]
		s.marked = s.here != nil && s.here.Mark != members.Unmarked
	}
	if err := t.still(ctx, id, all); err != nil {
		return err
	}
	t.follow(ctx, all)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked += len(all)
	for _, s := range all {
		switch f := s.judge(id); {
		case s.silent:
			t.open[s.by]++
		case s.marked:
			t.moving++
		case f.Severity == finding.OK:
		case len(t.found) >= mostListed:
			t.more++
		default:
			t.found = append(t.found, f)
		}
	}
	return nil
}

// still forgets the keys that are gone.
func (t *tagger) still(ctx context.Context, id int, all []*tagState) error {
	with := slices.DeleteFunc(slices.Clone(all), func(s *tagState) bool { return s.key == "" || s.here != nil && s.here.Home == id })
	if len(with) == 0 {
		return nil
	}
	gone, err := asked(ctx, t, id, func(ctx context.Context, c rueidis.Client) (gone []*tagState, err error) {
		cmds := make([]rueidis.Completed, len(with))
		for i, s := range with {
			cmds[i] = c.B().Pttl().Key(s.key).Build()
		}
		for i, reply := range c.DoMulti(ctx, cmds...) {
			switch left, err := reply.AsInt64(); {
			case err != nil:
				return nil, err
			case left == -2:
				gone = append(gone, with[i])
			}
		}
		return gone, nil
	})
	for _, s := range gone {
		s.key = ""
	}
	return err
}

// records reads the records of tags from the master of a partition, if it is the one that the
// map names. One that is missing is nil.
func (t *tagger) records(ctx context.Context, id int, all []*tagState) ([]*members.Record, error) {
	return asked(ctx, t, id, func(ctx context.Context, c rueidis.Client) ([]*members.Record, error) {
		keys := []string{members.IdentityKey}
		for _, s := range all {
			keys = append(keys, members.RecordKey(s.tag))
		}
		var texts []string
		for some := range slices.Chunk(keys, pageKeys) {
			reply, err := c.Do(ctx, c.B().Mget().Key(some...).Build()).ToArray()
			if err != nil {
				return nil, err
			}
			for _, value := range reply {
				text, _ := value.ToString() // empty if there is none
				texts = append(texts, text)
			}
		}
		if texts[0] != members.Identity(t.f.m.Fleet, id) {
			return nil, members.ErrUnknownServer
		}
		records := make([]*members.Record, len(all))
		for i, text := range texts[1:] {
			if r, err := members.ParseRecord(text); err == nil {
				records[i] = &r
			}
		}
		return records, nil
	})
}
