package ick

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Added tells what an add did. Marks that changed nothing, because their member
// was marked with a lower or equal score already, are in neither count.
type Added struct {
	New     int // members that were not marked before
	Lowered int // members that now have a lower score
}

// Add marks members as dirty. A member that waits already keeps the lower score.
// A member that is reserved right now is marked again all the same, and comes
// again after it was committed. No marks at all create an empty Ick, and have folds counted
// that this process has seen and the Ick has not.
//
// Goroutines that add to one Ick at the same time share script calls, of at most 1,000
// marks and 1 MiB, and each gets its own answer, as if it had called alone. A lone add
// goes out at once, and no add waits for more than the calls under way. One whose context
// ends returns at once: it is not sent if it still waited, and else its marks may be
// added all the same.
//
// More than 100 marks share no call. More than 1,000, or 1 MiB, take several, each applied
// whole. After a lost reply the library adds again; that forgets nothing, but the answer
// then counts the marks of the lost one as neither new nor lowered.
//
// Errors: [millrace.ErrBadArgument] for a score that is not a number and [millrace.ErrTooLarge], before anything was added;
// [millrace.ErrBroken], [millrace.ErrVersion], [millrace.ErrFull], each before the call's own marks were added.
func (k *Ick) Add(ctx context.Context, marks ...Entry) (Added, error) {
	return k.checked(ctx, marked(marks))
}

// AddNow marks members as dirty since now, by the server's clock. It is Add in
// all else.
func (k *Ick) AddNow(ctx context.Context, members ...string) (Added, error) {
	return k.checked(ctx, markedNow(members))
}

// mark is a member that is being added, with a score or as of the server's now.
type mark struct {
	member string
	score  float64
	now    bool
}

func marked(entries []Entry) []mark {
	marks := make([]mark, len(entries))
	for i, e := range entries {
		marks[i] = mark{member: e.Member, score: e.Score}
	}
	return marks
}

func markedNow(members []string) []mark {
	marks := make([]mark, len(members))
	for i, m := range members {
		marks[i] = mark{member: m, now: true}
	}
	return marks
}

// size is about how many bytes the mark takes in a call.
func (m mark) size() int { return len(m.member) + 32 }

// text is the score as scripts take it.
func (m mark) text() string {
	if m.now {
		return "now"
	}
	return formatScore(m.score)
}

// check refuses marks that Redis should not be asked about.
func check(marks ...mark) error {
	for _, m := range marks {
		if math.IsNaN(m.score) {
			return millrace.ErrBadArgument.Errorf("the score of %q is not a number", m.member)
		}
		if err := checkMembers(m.member); err != nil {
			return err
		}
	}
	return nil
}

// foldCount holds back the folds of calls with one mark, which write nothing, so that
// they need not write a counter either. They go along with an add ten times a
// second; so what is not counted are those of the last moments of a producer.
type foldCount struct {
	pending atomic.Int64
	taken   atomic.Int64 // when they last went along, in Unix milliseconds
}

// take returns the folds that go along with a call of so many marks, and whether it
// counts at all.
func (f *foldCount) take(marks int) (folds int64, due bool) {
	if marks != 1 {
		return f.pending.Swap(0), true
	}
	now, taken := time.Now().UnixMilli(), f.taken.Load()
	if now-taken < 100 || !f.taken.CompareAndSwap(taken, now) {
		return 0, false
	}
	return f.pending.Swap(0), true
}

func (k *Ick) checked(ctx context.Context, marks []mark) (Added, error) {
	if err := check(marks...); err != nil {
		return Added{}, err
	}
	return k.add(ctx, marks)
}

// add adds marks that were checked.
func (k *Ick) add(ctx context.Context, marks []mark) (Added, error) {
	if 0 < len(marks) && len(marks) <= sharing {
		return k.addShared(ctx, marks)
	}
	if len(marks) == 0 {
		_, err := k.send(ctx, &k.run, nil)
		return Added{}, err
	}
	var sum Added
	for part := range script.Chunks(marks, chunk, mark.size) {
		outcomes, err := k.send(ctx, &k.run, part)
		if err != nil {
			return sum, err
		}
		added := tally(outcomes)
		sum.New += added.New
		sum.Lowered += added.Lowered
	}
	return sum, nil
}

// send makes one script call for marks that it can carry and returns what each did:
// a letter, see add.lua.
func (k *Ick) send(ctx context.Context, run *script.Runner, marks []mark) (string, error) {
	args := make([]string, 0, 1+2*len(marks))
	for _, m := range marks {
		args = append(args, m.text(), m.member)
	}
	earlier, due := k.folds.take(len(marks))
	if due {
		args = append(args, strconv.FormatInt(earlier, 10))
	}
	reply, err := run.Run(ctx, "add", k.name, args...)
	if err != nil {
		k.folds.pending.Add(earlier)
		return "", k.explain(err)
	}
	k.entry.Touch()
	outcomes := reply.Text()
	if err = reply.Err(); err == nil && len(outcomes) != len(marks) {
		err = fmt.Errorf("ick.add answered %d outcomes for %d marks", len(outcomes), len(marks))
	}
	if !due && outcomes != "n" {
		k.folds.pending.Add(1)
	}
	return outcomes, err
}

// tally counts outcomes.
func tally(outcomes string) Added {
	return Added{New: strings.Count(outcomes, "n"), Lowered: strings.Count(outcomes, "l")}
}
