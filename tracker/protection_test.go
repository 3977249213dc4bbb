package tracker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A history plays one way in which a tracker could break its word, and returns an
// error if it did. The first ones are the defects of the design that this package
// is modelled on.
type history struct {
	name string
	play func(t *testing.T, tr *Tracker, work *table) error
}

// is returns an error unless an identifier is in that state.
func is(t *testing.T, tr *Tracker, id string, want State) error {
	t.Helper()
	a, err := tr.Queued(t.Context(), id)
	if err == nil && a[0].State != want {
		err = fmt.Errorf("%q is %v, want %v", id, a[0].State, want)
	}
	return err
}

var histories = []history{
	{"re-added in the moment of its removal", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("x")
		add(t, tr, "x")
		work.finish("x")
		work.during = func() { // the slice has its answer
			work.start("x")
			add(t, tr, "x")
		}
		verifyOne(t, tr)
		return is(t, tr, "x", Queued)
	}},
	{"seen by a pass in the moment of its removal", func(t *testing.T, tr *Tracker, work *table) error {
		add(t, tr, "x")
		work.during = func() {
			work.start("x") // and its producer died
			pass(t, tr)
		}
		verifyOne(t, tr)
		return is(t, tr, "x", Queued)
	}},
	{"others are added in the moment of a removal", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		add(t, tr, "x")
		work.during = func() { add(t, tr, "y") }
		verifyOne(t, tr)
		return errors.Join(is(t, tr, "x", NotQueued), is(t, tr, "y", Queued))
	}},
	{"a row that comes when the walk has gone by", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c")
		walkOne(t, tr)
		work.startAt(0, "Late") // before a
		for range 4 {
			walkOne(t, tr)
		}
		return is(t, tr, "Late", Queued)
	}},
	{"work that moves behind the cursor in each pass", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c", "x")
		for pass := range 3 {
			walkOne(t, tr)
			walkOne(t, tr)
			work.move(-pass, "x", pass == 1) // to the first row
			for n := stats(t, tr).Passes; stats(t, tr).Passes == n; {
				walkOne(t, tr)
			}
			if err := is(t, tr, "x", Queued); err != nil {
				return err
			}
			work.move(100+pass, "x", false) // and back to the last one
			must(t, tr.run.Client, "ZREM", idsKey(baseKey(tr.name)), "x")
		}
		return nil
	}},
	{"rows of one walk, seen one by one", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c")
		for range 4 {
			walkOne(t, tr)
		}
		s := stats(t, tr)
		if s.Passes != 1 || s.Tracked != 3 {
			return fmt.Errorf("%d passes and %d tracked, want 1 and 3", s.Passes, s.Tracked)
		}
		return nil
	}},
	{"asked before the first pass is over", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c")
		walkOne(t, tr)
		return errors.Join(is(t, tr, "a", Queued), is(t, tr, "c", Unknown))
	}},
	{"flushed", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b")
		pass(t, tr)
		must(t, tr.run.Client, "DEL", baseKey(tr.name), idsKey(baseKey(tr.name)))
		err := is(t, tr, "a", Unknown)
		add(t, tr, "b")
		err = errors.Join(err, is(t, tr, "a", Unknown), is(t, tr, "b", Queued))
		pass(t, tr)
		return errors.Join(err, is(t, tr, "a", Queued), is(t, tr, "none", NotQueued))
	}},
	{"a slice from before the flush", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		walkOne(t, tr)
		work.during = func() { // the slice has its answer: there is no row behind a
			must(t, tr.run.Client, "DEL", baseKey(tr.name), idsKey(baseKey(tr.name)))
			work.start("b")
			walkOne(t, tr) // at the same place of another pass
		}
		walkOne(t, tr)
		return is(t, tr, "b", Unknown)
	}},
	{"the set alone is lost", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c")
		pass(t, tr)
		walkOne(t, tr) // in the middle of the second one
		must(t, tr.run.Client, "DEL", idsKey(baseKey(tr.name)))
		err := is(t, tr, "a", Unknown)
		add(t, tr, "b")
		err = errors.Join(err, is(t, tr, "a", Unknown))
		pass(t, tr)
		return errors.Join(err, is(t, tr, "a", Queued))
	}},
	{"the record alone is lost", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		pass(t, tr)
		must(t, tr.run.Client, "DEL", baseKey(tr.name))
		return errors.Join(is(t, tr, "a", Queued), is(t, tr, "none", Unknown))
	}},
	{"the last one is removed", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		pass(t, tr)
		work.finish("a")
		verifyOne(t, tr)
		return is(t, tr, "a", NotQueued)
	}},
	{"two walk at once", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c", "d")
		add(t, tr, "a")
		work.during = func() { // an overtaken slice must not bring the cursor back, nor forward
			walkOne(t, tr)
			walkOne(t, tr)
		}
		walkOne(t, tr)
		walkOne(t, tr)
		if got := strings.Join(tracked(t, tr), ""); got != "abc" {
			return fmt.Errorf("tracked %q, want the rows in turn", got)
		}
		return nil
	}},
	{"overtaken by a whole pass", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		work.start("a", "b")
		work.during = func() {
			pass(t, tr)
			work.finish("a")
			verifyOne(t, tr) // a is gone
			verifyOne(t, tr)
		}
		walkOne(t, tr) // it saw a
		return is(t, tr, "a", NotQueued)
	}},
	{"finished while a slice that saw it is under way", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		var finished int64
		work.during = func() {
			finished = clock(t, tr)
			work.finish("a")
			tick(t, tr)
		}
		tick(t, tr)
		walkOne(t, tr)
		if got := stamp(t, tr, "a"); got == 0 || got > finished {
			return fmt.Errorf("the stamp is %d, later than the last work at %d", got, finished)
		}
		return nil
	}},
	{"finished while a slice confirms it", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		add(t, tr, "a")
		before := stamp(t, tr, "a")
		var finished int64
		work.during = func() {
			finished = clock(t, tr)
			work.finish("a")
			tick(t, tr)
		}
		verifyOne(t, tr)
		if got := stamp(t, tr, "a"); got <= before || got > finished {
			return fmt.Errorf("the stamp is %d, want one from %d to the last work at %d", got, before, finished)
		}
		return nil
	}},
	{"added while a slice that saw it is under way", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		work.start("a")
		var added int64
		work.during = func() {
			tick(t, tr)
			add(t, tr, "a")
			added = stamp(t, tr, "a")
		}
		walkOne(t, tr)
		if got := stamp(t, tr, "a"); got != added {
			return fmt.Errorf("the stamp went back from %d to %d", added, got)
		}
		return nil
	}},
	{"each has its turn", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		work.start("a", "b", "c", "d")
		add(t, tr, "a", "b", "c", "d", "gone")
		for range 5 {
			verifyOne(t, tr) // one identifier each
		}
		return is(t, tr, "gone", NotQueued)
	}},
	{"re-added when the clock was set back", func(t *testing.T, tr *Tracker, work *table) error {
		now := clock(t, tr)
		setStamp(t, tr, "x", now+3_600_000)
		work.during = func() {
			work.start("x")
			add(t, tr, "x")
		}
		verifyOne(t, tr)
		return is(t, tr, "x", Queued)
	}},
	{"finished when the clock was set back", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		now := clock(t, tr)
		work.start("live")
		setStamp(t, tr, "live", now+3_600_000)
		setStamp(t, tr, "gone", now+3_600_001)
		verifyOne(t, tr)
		verifyOne(t, tr)
		if ahead := stamp(t, tr, "live"); ahead > now+60_000 {
			return errors.New("a stamp stays ahead of the clock")
		}
		return is(t, tr, "gone", NotQueued)
	}},
	{"removed while a slice confirms it", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		work.start("x")
		add(t, tr, "x")
		work.during = func() {
			work.finish("x")
			verifyOne(t, tr)
		}
		verifyOne(t, tr)
		return is(t, tr, "x", NotQueued)
	}},
	{"added a moment before the commit", func(t *testing.T, tr *Tracker, work *table) error {
		pass(t, tr)
		tr.cfg.Grace = defaultGrace
		add(t, tr, "x")
		verifyOne(t, tr) // no row yet
		work.start("x")
		return is(t, tr, "x", Queued)
	}},
	{"deleted while slices are under way", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a", "b", "c")
		pass(t, tr)
		for range 2 {
			if _, err := tr.addSlice(t.Context()); err != nil {
				return err
			}
			tick(t, tr)
			work.during = func() {
				if _, err := tr.Delete(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if _, err := tr.verifySlice(t.Context()); err != nil {
				return err
			}
		}
		return is(t, tr, "a", Unknown)
	}},
}

// fullHistories are histories that need a server of their own.
var fullHistories = []history{
	{"adding on a full server", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		full(t, tr)
		if err := tr.Add(t.Context(), "x"); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("Add = %w, want ErrFull", err)
		}
		if _, err := tr.Jobs()[0].Slice(t.Context()); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("add slice = %w, want ErrFull", err)
		}
		return is(t, tr, "x", Unknown)
	}},
	{"removing on a full server", func(t *testing.T, tr *Tracker, work *table) error {
		work.start("a")
		pass(t, tr)
		add(t, tr, "gone")
		full(t, tr)
		tick(t, tr)
		for range 2 { // one identifier each
			if _, err := tr.Jobs()[1].Slice(t.Context()); err != nil {
				return err
			}
		}
		return errors.Join(is(t, tr, "a", Queued), is(t, tr, "gone", NotQueued))
	}},
}

// full lets the server's memory be full from now on.
func full(t *testing.T, tr *Tracker) {
	t.Helper()
	must(t, tr.run.Client, "CONFIG", "SET", "maxmemory", "1")
}

// protections are the safeguards that keep the histories from failing, and how to take each out.
var protections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"what has another stamp is left alone", "if redis.call('ZSCORE', ids, id) == seen then", "if true then",
		[]string{"re-added in the moment of its removal", "seen by a pass in the moment of its removal"}},
	{"adding changes the stamp", "redis.call('ZADD', ids, now, ARGV[i])", "redis.call('ZADD', ids, 'NX', now, ARGV[i])",
		[]string{"re-added in the moment of its removal"}},
	{"adding changes a stamp ahead of the clock", "redis.call('ZADD', ids, now, ARGV[i])", "redis.call('ZADD', ids, 'GT', now, ARGV[i])",
		[]string{"re-added when the clock was set back"}},
	{"stamps ahead of the clock are verified", "take(redis.call('ZRANGEBYSCORE', ids, now + grace, '(+inf', 'WITHSCORES', 'LIMIT', 0, n))", "",
		[]string{"finished when the clock was set back"}},
	{"the oldest come first, and get a new stamp", "redis.call('ZADD', ids, 'XX', ARGV[1], id)", "",
		[]string{"each has its turn", "finished while a slice confirms it"}},
	{"a confirmation claims no more than was seen", "redis.call('ZADD', ids, 'XX', ARGV[1], id)", "redis.call('ZADD', ids, 'XX', now, id)",
		[]string{"finished while a slice confirms it"}},
	{"a pass claims no more than was seen", "local stamp, after = ARGV[4], ARGV[5]", "local stamp, after = now, ARGV[5]",
		[]string{"finished while a slice that saw it is under way"}},
	{"a pass lowers no stamp", "'ZADD', ids, 'GT', stamp,", "'ZADD', ids, stamp,", []string{"added while a slice that saw it is under way"}},
	{"the cursor returns to the start", "'cursor', after,", "'cursor', after ~= '' and after or cursor,",
		[]string{"a row that comes when the walk has gone by"}},
	{"the cursor moves", "'cursor', after,", "'cursor', cursor,", []string{"rows of one walk, seen one by one"}},
	{"the cursor is compared", "or cursor ~= ARGV[3]", "", []string{"two walk at once"}},
	{"the pass is compared", "or passes ~= ARGV[2]", "", []string{"overtaken by a whole pass"}},
	{"the life is compared", "life ~= ARGV[1] or ", "", []string{"a slice from before the flush"}},
	{"passes are counted", "passes = string.format('%.0f', passes + 1)", "", []string{"flushed", "the last one is removed"}},
	{"unknown until the first pass is over", "local reply = {now, passes, ", "local reply = {now, '1', ",
		[]string{"asked before the first pass is over", "flushed", "the set alone is lost"}},
	{"only the end of the table ends a pass", "if after == '' then\n  passes", "if true then\n  passes",
		[]string{"asked before the first pass is over", "rows of one walk, seen one by one"}},
	{"the mark tells an empty set from a lost one", "local whole = found[1] and found[2] and marked", "local whole = found[1] and found[2]",
		[]string{"the set alone is lost"}},
	{"the mark is set", "redis.call('ZADD', ids, '+inf', '')", "", []string{"the last one is removed"}},
	{"a new record begins anew", "'HDEL', K, 'passes', 'cursor', 'pass_started_ms', 'full_started_ms'", "'HDEL', K, 'none'", []string{"the set alone is lost"}},
	{"who was seen a moment ago is left alone", "'-inf', now - grace,", "'-inf', now,", []string{"added a moment before the commit"}},
	{"removing begins with what is not refused", "redis.call('HDEL', K, '')", "", []string{"removing on a full server"}},
	{"adding begins with what is refused", "local new = 0\n", "local new = 0\nredis.call('DEL', K .. ':ids:')\n",
		[]string{"adding on a full server"}},
	{"a verification creates no record", "if whole and removed > 0", "if removed > 0 or not whole", []string{"deleted while slices are under way"}},
}

func play(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	list, client := histories, redistest.Shared(t).Client(t)
	i := slices.IndexFunc(list, func(h history) bool { return h.name == name })
	if i < 0 {
		list, client = fullHistories, redistest.Start(t, redistest.Options{}).Client(t)
		i = slices.IndexFunc(list, func(h history) bool { return h.name == name })
	}
	work := &table{}
	tr := openOn(t, client, redistest.Name(t), Config{Source: work, AddRows: 1, VerifyIDs: 1})
	tr.run.Scripts, tr.slices.Scripts = scripts, scripts
	return list[i].play(t, tr, work)
}

// TestHistories plays slices, adds and faults in a given order, and asks which identifiers have work.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, h := range append(slices.Clone(histories), fullHistories...) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, h.name, library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := play(t, name, scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
