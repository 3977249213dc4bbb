package ick

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// sharing is the largest number of marks of one caller that share a call with those of
	// others: they fit into a call, whatever their sizes.
	sharing = 100

	// sharedTimeout bounds a shared call, which no caller's context ends.
	sharedTimeout = 10 * time.Second
)

// Added is the result of an add. Marks whose member had a lower or equal score already are in
// neither count.
type Added struct {
	New     int // members that were not marked before
	Lowered int // members that now have a lower score
}

func (a *Added) add(o Added) { a.New, a.Lowered = a.New+o.New, a.Lowered+o.Lowered }

// Add marks members as dirty. A waiting member keeps the lower score. A reserved member is marked
// again, and is reserved again after its commit. Without marks, Add creates an empty Ick and
// writes the folds that this process has counted.
//
// Goroutines that add to one Ick at the same time share script calls of at most 1,000 marks and
// 1 MiB, and each gets its own result. A lone add is sent at once; others wait for the calls in
// flight at most. An add whose context ends returns at once: it is not sent if it still waited,
// otherwise its marks may be added.
//
// More than 100 marks share no call. More than 1,000, or 1 MiB, take several calls, each applied
// completely or not at all. After a lost reply the library adds again; the result then counts
// the marks of the lost call as neither new nor lowered.
//
// Errors: [millrace.ErrBadArgument] for a score that is not a number and [millrace.ErrTooLarge],
// before anything is added; [millrace.ErrBroken], [millrace.ErrVersion], [millrace.ErrFull], each
// before the call's own marks are added.
func (k *Ick) Add(ctx context.Context, marks ...Entry) (Added, error) {
	return addEntries(ctx, marks, k.add)
}

// AddNow is Add with the server's time as the score.
func (k *Ick) AddNow(ctx context.Context, members ...string) (Added, error) {
	return addMembers(ctx, members, k.add)
}

// mark is a member to add, with its score as scripts take it: a number or "now".
type mark struct{ member, score string }

// size is about how many bytes the mark takes in a call.
func (m mark) size() int { return len(m.member) + 32 }

func sizeOf(marks []mark) (items, bytes int) {
	for _, m := range marks {
		bytes += m.size()
	}
	return len(marks), bytes
}

func addEntries(ctx context.Context, entries []Entry, add func(context.Context, []mark) (Added, error)) (Added, error) {
	marks := make([]mark, len(entries))
	for i, e := range entries {
		if math.IsNaN(e.Score) {
			return Added{}, millrace.ErrBadArgument.Errorf("the score of %q is not a number", e.Member)
		}
		if err := checkMember(e.Member); err != nil {
			return Added{}, err
		}
		marks[i] = mark{e.Member, formatScore(e.Score)}
	}
	return add(ctx, marks)
}

func addMembers(ctx context.Context, members []string, add func(context.Context, []mark) (Added, error)) (Added, error) {
	marks := make([]mark, len(members))
	for i, member := range members {
		if err := checkMember(member); err != nil {
			return Added{}, err
		}
		marks[i] = mark{member, "now"}
	}
	return add(ctx, marks)
}

// add adds checked marks.
func (k *Ick) add(ctx context.Context, marks []mark) (sum Added, err error) {
	if 0 < len(marks) && len(marks) <= sharing {
		return k.addShared(ctx, marks)
	}
	if len(marks) == 0 {
		_, err = k.send(ctx, &k.run, nil)
		return sum, err
	}
	for part := range script.Chunks(marks, chunk, mark.size) {
		outcomes, err := k.send(ctx, &k.run, part)
		if err != nil {
			return sum, err
		}
		sum.add(count(outcomes))
	}
	return sum, nil
}

// addShared adds marks in a call that others may share, if one is in flight already. The hooks
// see the caller's own call.
func (k *Ick) addShared(ctx context.Context, marks []mark) (added Added, err error) {
	var outcomes string
	if k.adds.Alone(func() { outcomes, err = k.send(ctx, &k.run, marks) }) {
		return count(outcomes), err
	}
	ctx, ended := script.Watch(ctx, k.cfg.Hooks, millrace.Call{Script: "ick.add", Key: k.name, Try: 1})
	defer func() { ended(err) }()
	outcomes, err = k.adds.Do(ctx, marks)
	return count(outcomes), err
}

// addTogether adds the marks of several callers, and returns each one's outcomes.
func (k *Ick) addTogether(ctx context.Context, callers [][]mark) ([]string, error) {
	ctx, cancel := script.Within(script.Detached(ctx), sharedTimeout)
	defer cancel()
	outcomes, err := k.send(ctx, &k.shared, slices.Concat(callers...))
	if err != nil {
		return nil, err
	}
	each := make([]string, len(callers))
	for i, marks := range callers {
		each[i], outcomes = outcomes[:len(marks)], outcomes[len(marks):]
	}
	return each, nil
}

// send makes one script call and returns the outcome of each mark: a letter, see add.lua.
func (k *Ick) send(ctx context.Context, run *script.Runner, marks []mark) (string, error) {
	args := make([]string, 0, 1+2*len(marks))
	for _, m := range marks {
		args = append(args, m.score, m.member)
	}
	folds, counts := k.folds.take(len(marks))
	if counts {
		args = append(args, strconv.FormatInt(folds, 10))
	}
	reply, err := run.Run(ctx, "add", k.name, args...)
	if err != nil {
		k.folds.pending.Add(folds)
		return "", k.explain(err)
	}
	k.entry.Touch()
	outcomes := reply.Text()
	if err = reply.Err(); err == nil && len(outcomes) != len(marks) {
		err = fmt.Errorf("ick.add replied with %d outcomes for %d marks", len(outcomes), len(marks))
	}
	if !counts && outcomes != "n" {
		k.folds.pending.Add(1)
	}
	return outcomes, err
}

func count(outcomes string) Added {
	return Added{New: strings.Count(outcomes, "n"), Lowered: strings.Count(outcomes, "l")}
}

// foldCount collects the folds of calls with one mark, which write nothing and so write no
// counter either. Ten times a second a call writes them; those of a process's last moments are
// lost.
type foldCount struct {
	pending atomic.Int64
	taken   atomic.Int64 // when a call last wrote them, in Unix milliseconds
}

// take returns the folds that a call of so many marks writes, and whether it counts at all.
func (f *foldCount) take(marks int) (folds int64, counts bool) {
	if marks == 1 {
		now, taken := time.Now().UnixMilli(), f.taken.Load()
		if now-taken < 100 || !f.taken.CompareAndSwap(taken, now) {
			return 0, false
		}
	}
	return f.pending.Swap(0), true
}

// repeatHooks returns hooks that see only the repeats of a shared call: each caller's hooks see
// its first try.
func repeatHooks(hooks []millrace.Hook) (repeats []millrace.Hook) {
	for _, hook := range hooks {
		if h, ok := hook.(millrace.CallHook); ok {
			repeats = append(repeats, repeatHook{h})
		}
	}
	return repeats
}

type repeatHook struct{ millrace.CallHook }

// OnCall implements [millrace.CallHook].
func (h repeatHook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try == 1 {
		return ctx, nil
	}
	return h.CallHook.OnCall(ctx, call)
}
