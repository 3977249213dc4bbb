package scatter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// FoldConfig says what of a server is folded, and how. It needs Match.
type FoldConfig struct {
	// Match is a pattern of the keys that belong to the group, as SCAN has it: "*" on a
	// server that has nothing else. Whatever matches is moved, whoever wrote it, so there
	// is no default. Keys that begin with mr: never match, but for values that a reset
	// has put aside.
	Match string

	// Merge says how the numbers and scores of a key are put together. It must be as
	// readers do it: what they read with Max, or with Best, is to be folded so. Defaults
	// to Sum for all.
	Merge func(key string) Merge

	// Progress is told how far it is, after every key, by one goroutine at a time.
	// Defaults to nobody.
	Progress func(FoldReport)
}

// FoldReport says what was folded.
type FoldReport struct {
	// Passes is how often all keys were gone through, the last time without finding
	// anything.
	Passes int

	// Keys is how many keys were folded, of which Parcels were moved, with so many
	// Elements: numbers, entries, members. A key that was written again counts again.
	Keys, Parcels, Elements int64

	// Left are the keys that stay where they are, and why, in the order of their names;
	// at most MaxLeft of them.
	Left []LeftKey
}

// LeftKey is a key that could not be folded.
type LeftKey struct {
	Key string
	Err error
}

// MaxLeft is how many keys that could not be folded are named.
const MaxLeft = 1000

// Fold empties a server that is to leave: it closes it to sessions, which go to others
// from then on, and moves all its values to the others, where they are added to what is
// there. Writers and readers run all the time, and every gather is exact.
//
// A call that failed, or was killed, is finished by calling it again; until then the
// values are read exactly, from where they are. When it has succeeded, the server holds
// no values of the group, and may be left out of the list of every process. It stays
// closed; [Scatter.Reopen] takes that back, at any time.
//
// Programs that write to the server without sessions have to be stopped first: Fold
// goes on until it finds nothing more, and knows nothing of what comes later. It may be
// called again for that.
//
// All servers of the group must answer. A list is folded up to its newest [MaxCap]
// entries; what is no number, list, set or sorted set stays.
//
// Errors: [ErrConfig] if there is no such server, or no Match; [ErrFold] if it takes
// what another one leaves, whose fold is to be finished first; [ErrLeft] if some keys
// could not be folded, which the report names; [millrace.ErrFull]; that of a server that
// cannot be reached.
func (s *Scatter) Fold(ctx context.Context, leaving string, cfg FoldConfig) (FoldReport, error) {
	if cfg.Match == "" {
		return FoldReport{}, ErrConfig.Saying("FoldConfig.Match must say which keys of server %s belong to the group; \"*\" if all do", leaving)
	}
	if cfg.Merge == nil {
		cfg.Merge = func(string) Merge { return Sum }
	}
	f := &folding{cfg: cfg, left: map[string]*leftError{}}
	ready, err := f.begin(ctx, s, leaving)
	if err == nil && len(f.targets) == 0 {
		err = f.aim(ctx, ready)
	}
	for err == nil {
		var found int64
		if found, err = f.pass(ctx); err != nil || found > 0 {
			continue
		}
		var over bool
		if over, err = f.end(ctx); over || f.stuck() {
			break
		}
	}
	if err == nil && len(f.left) > 0 {
		err = ErrLeft.Saying("%d keys of server %s could not be folded", len(f.left), leaving)
	}
	return f.reported(), err
}

// Reopen lets sessions write to a server again that was closed by [Scatter.Fold],
// whether that was finished or not. What was moved stays where it is. Processes that
// have found the server closed notice within a minute. Errors: as for Fold.
func (s *Scatter) Reopen(ctx context.Context, name string) error {
	f := &folding{left: map[string]*leftError{}}
	_, err := f.begin(ctx, s, name)
	for over := false; err == nil && !over; {
		if err = f.arrive(ctx); err != nil {
			break
		}
		if f.stuck() {
			first := f.reported().Left[0]
			return ErrLeft.Saying("parcels of %d keys of server %s cannot be put down, %q for one", len(f.left), name, first.Key).With(first.Err)
		}
		over, err = f.end(ctx)
	}
	if err != nil {
		return err
	}
	return f.reopen(ctx)
}

// folding is one call of Fold.
type folding struct {
	departure

	cfg     FoldConfig
	others  []*server
	targets []string // the names of those that take what is there

	mu     sync.Mutex
	report FoldReport
	left   map[string]*leftError
}

// begin closes the server, or finds the fold that is under way, and makes the others
// ready for its parcels. It returns the names of those that are.
func (f *folding) begin(ctx context.Context, s *Scatter, leaving string) (ready []string, err error) {
	f.sc, f.leaving = s, s.named(leaving)
	if f.leaving == nil {
		return nil, ErrConfig.Saying("there is no server %q in the list", leaving)
	}
	f.others = slices.DeleteFunc(slices.Clone(s.servers), func(one *server) bool { return one == f.leaving })
	if len(f.others) == 0 {
		return nil, ErrConfig.Saying("there is no server to which %q could leave what it has", leaving)
	}
	if err := f.close(ctx); err != nil {
		return nil, err
	}
	if ready, err = f.join(ctx); err != nil {
		return nil, err
	}
	for _, name := range f.targets {
		if !slices.Contains(ready, name) {
			return nil, errAbsent(leaving, name)
		}
	}
	return ready, nil
}

// aim notes which servers take what is there. If none does, the server is opened again.
func (f *folding) aim(ctx context.Context, ready []string) error {
	if len(ready) > 0 {
		return f.close(ctx, ready...)
	}
	err := ErrClosed.Saying("no server can take what %s leaves: all others leave too", f.leaving.Name)
	if _, failed := f.end(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	if failed := f.reopen(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// close closes the server, and has it note the targets unless it knows some.
func (f *folding) close(ctx context.Context, targets ...string) error {
	var list strings.Builder
	for _, name := range targets {
		list.WriteString(name + "\n")
	}
	args := []string{f.sc.base, list.String()}
	for _, one := range f.others {
		args = append(args, one.Name)
	}
	reply, err := f.sc.run(ctx, f.leaving, f.sc.moves.close, args...)
	if err != nil {
		return err
	}
	parts, err := answers(reply)
	switch {
	case err != nil || len(parts) != 3:
		return fmt.Errorf("server %s answered %q to close: %w", f.leaving.Name, parts, err)
	case parts[0] == "target":
		return ErrFold.Saying("server %s takes what server %s leaves, and cannot leave itself before that is finished", f.leaving.Name, parts[1])
	}
	f.fold = parts[1]
	f.targets = slices.DeleteFunc(strings.Split(parts[2], "\n"), func(name string) bool { return name == "" })
	return nil
}

// join makes the others ready and returns the names of those that are not closed.
func (f *folding) join(ctx context.Context) (ready []string, err error) {
	for _, one := range f.others {
		reply, err := f.sc.run(ctx, one, f.sc.moves.join, f.sc.base, f.leaving.Name, f.fold)
		if err != nil {
			return nil, err
		}
		parts, err := answers(reply)
		switch {
		case err != nil || len(parts) != 2:
			return nil, fmt.Errorf("server %s answered %q to join: %w", one.Name, parts, err)
		case parts[0] == "later":
			return nil, ErrFold.Saying("server %s knows of a later fold of server %s, whose clock was set back or which was replaced; unless one runs, delete %q there",
				one.Name, f.leaving.Name, appliedKey(f.sc.base, f.leaving.Name))
		case parts[0] == "done":
			ready = append(ready, one.Name)
		}
	}
	return ready, nil
}

// pass goes once through all keys, and returns how many it has folded.
func (f *folding) pass(ctx context.Context) (int64, error) {
	before := f.report.Keys
	f.report.Passes++
	clear(f.left)
	err := f.arrive(ctx)
	if err == nil {
		err = f.scan(ctx, f.cfg.Match, func(key string) bool { return !strings.HasPrefix(key, "mr:") })
	}
	if err == nil {
		err = f.scan(ctx, globOf(endedPrefix(f.sc.base))+"*", func(string) bool { return true })
	}
	return f.report.Keys - before, err
}

// arrive delivers the parcels that are on their way.
func (f *folding) arrive(ctx context.Context) error {
	out := outKey(f.sc.base)
	return f.each(ctx, func(b rueidis.Builder, cursor uint64) rueidis.Completed {
		return b.Hscan().Key(out).Cursor(cursor).Count(pageSize).Build()
	}, func(page []string) (keys []string) {
		for i := 0; i < len(page); i += 2 { // fields and values
			keys = append(keys, page[i])
		}
		return keys
	}, f.resume)
}

// scan folds the keys that match a pattern and belong to the group.
func (f *folding) scan(ctx context.Context, match string, ours func(key string) bool) error {
	return f.each(ctx, func(b rueidis.Builder, cursor uint64) rueidis.Completed {
		return b.Scan().Cursor(cursor).Match(match).Count(pageSize).Build()
	}, func(page []string) []string {
		return slices.DeleteFunc(page, func(key string) bool { return !ours(key) })
	}, f.move)
}

// movers is how many keys are moved at the same time.
const movers = 16

// each does something for each key of the pages of a scan. It ends with the first error.
func (f *folding) each(ctx context.Context, command func(rueidis.Builder, uint64) rueidis.Completed, keys func(page []string) []string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for page, err := range f.sc.pages(ctx, f.leaving, command) {
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		some := make(chan struct{}, movers)
		for _, key := range keys(page) {
			some <- struct{}{}
			wg.Go(func() {
				defer func() { <-some }()
				if err := f.settle(key, do(ctx, key)); err != nil {
					cancel(err)
				}
			})
		}
		wg.Wait()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// move moves what a key has.
func (f *folding) move(ctx context.Context, key string) error {
	owner := key
	if of, _, ended := cutEnded(f.sc.base, key); ended {
		owner = of
	}
	target, merge := f.targets[RingHash(key, len(f.targets))], f.cfg.Merge(owner)
	for first := true; ; first = false {
		p, found, err := f.send(ctx, key, target, merge)
		if err != nil || !found {
			return err
		}
		f.count(p, first)
		if p.size() < parcelSize {
			return nil
		}
	}
}

// parcelSize is how many elements a parcel has at most, see take.lua.
const parcelSize = 1000

// resume delivers a parcel that is on its way.
func (f *folding) resume(ctx context.Context, key string) error {
	p, found, err := f.send(ctx, key, "", Sum)
	if err == nil && found {
		f.count(p, true)
	}
	return err
}

// count notes what was moved, and shows it.
func (f *folding) count(p *parcel, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Parcels++
	f.report.Elements += p.size()
	if first {
		f.report.Keys++
	}
	if f.cfg.Progress != nil {
		f.cfg.Progress(f.report)
	}
}

// settle notes a key that stays where it is. All other errors end the fold.
func (f *folding) settle(key string, err error) error {
	left, ok := errors.AsType[*leftError](err)
	if !ok {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[key] = left
	return nil
}

// stuck reports whether some parcel cannot be put down.
func (f *folding) stuck() bool {
	for _, left := range f.left {
		if left.stuck {
			return true
		}
	}
	return false
}

// end ends the fold, and reports whether it has: another call may have a parcel on its
// way.
func (f *folding) end(ctx context.Context) (over bool, err error) {
	reply, err := f.sc.run(ctx, f.leaving, f.sc.moves.finish, f.sc.base, f.fold)
	if err != nil {
		return false, err
	}
	if answer, err := reply.ToString(); err != nil || answer != "done" {
		return false, err
	}
	// From here on gathers find that the numbers do not fit, and look again.
	errs := make([]error, len(f.others))
	var wg sync.WaitGroup
	for i, one := range f.others {
		wg.Go(func() { _, errs[i] = f.sc.run(ctx, one, f.sc.moves.part, f.sc.base, f.leaving.Name, f.fold) })
	}
	wg.Wait()
	return true, errors.Join(errs...)
}

// reopen opens the server, whose fold has ended.
func (f *folding) reopen(ctx context.Context) error {
	reply, err := f.sc.run(ctx, f.leaving, f.sc.moves.reopen, f.sc.base)
	if err != nil {
		return err
	}
	switch answer, err := reply.ToString(); {
	case err != nil:
		return fmt.Errorf("server %s answered to reopen: %w", f.leaving.Name, err)
	case answer != "done":
		return ErrFold.Saying("another call has begun a fold of server %s meanwhile", f.leaving.Name)
	}
	f.leaving.closed.Store(0)
	return nil
}

// reported returns the report with the keys that were left.
func (f *folding) reported() FoldReport {
	for _, key := range slices.Sorted(maps.Keys(f.left)) {
		if len(f.report.Left) < MaxLeft {
			f.report.Left = append(f.report.Left, LeftKey{Key: key, Err: f.left[key].cause})
		}
	}
	return f.report
}
