package fleet

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/commands"
	"github.com/millrace/millrace/internal/redis/retry"
)

// blockSlack is how much longer than its timeout a command may block before its
// connection is closed. It is long, because a popped element would be lost.
const blockSlack = 10 * time.Second

// marked marks a command that blocks on the server, so that it does not delay others on
// the same connection. Commands built with Arbitrary may lack the mark.
func (f *Fleet) marked(cmd rueidis.Completed) rueidis.Completed {
	if words := cmd.Commands(); !cmd.IsBlock() && mayBlock(words[0]) {
		if d, forever := commands.BlockTime(words); d > 0 || forever {
			return f.builder.Arbitrary(words...).Blocking()
		}
	}
	return cmd
}

// mayBlock is a cheap check that rules out most commands.
func mayBlock(name string) bool { return name != "" && strings.IndexByte("BXWbxw", name[0]) >= 0 }

// blockTimes returns whether any of the commands blocks, for how long they may block
// together, and whether one may block forever.
func blockTimes(cmds []rueidis.Completed) (blocks bool, d time.Duration, forever bool) {
	for _, cmd := range cmds {
		words := cmd.Commands()
		if !cmd.IsBlock() && !mayBlock(words[0]) {
			continue
		}
		each, endless := commands.BlockTime(words)
		blocks = blocks || cmd.IsBlock() || each > 0 || endless
		d, forever = max(d, d+each), forever || endless
	}
	return blocks, d, forever
}

// refusePop returns an error for a pop: if no replica confirmed it, the caller would have an error, and the element would be gone.
func refusePop(cmds []rueidis.Completed) error {
	for _, cmd := range cmds {
		words := cmd.Commands()
		switch strings.ToUpper(words[0]) {
		case "XREADGROUP":
			streams := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, "STREAMS") })
			if !slices.ContainsFunc(words[:max(0, streams)], func(w string) bool { return strings.EqualFold(w, "NOACK") }) {
				continue
			}
		case "BLPOP", "BRPOP", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
			"LPOP", "RPOP", "LMPOP", "ZPOPMIN", "ZPOPMAX", "ZMPOP", "SPOP", "GETDEL", "HGETDEL":
		default:
			continue
		}
		refused := ErrUnsupported.Errorf("%s cannot wait for replicas: the element would be lost if none confirms", words[0])
		refused.Hint = "Move it with LMOVE, BLMOVE or SMOVE, or read it with XREADGROUP and XACK, and remove it when it is handled; or use a fleet without WaitReplicas."
		return refused
	}
	return nil
}

// term is the time of one master: until the next epoch of its partition, or until the
// partition becomes read-only.
type term struct {
	ctx   context.Context // ends when the master's replies do not count any more
	end   context.CancelFunc
	until atomic.Int64 // when that is, if the present view has another one
}

func newTerm() *term {
	ctx, end := context.WithCancel(context.Background()) //nolint:gosec // the term keeps it
	return &term{ctx: ctx, end: end}
}

// counts reports whether a reply that has arrived by now is from the master of that
// time. The present view decides, not the one by which a long call began: that may have
// expired.
func (p *partition) counts() bool {
	if v := p.f.view.Load(); p.in(v) {
		return p.f.now() < v.counts()
	}
	return p.f.now() < p.term.until.Load()
}

// in reports whether the partition has the same master in a view.
func (p *partition) in(v *view) bool {
	return p.ID < len(v.partitions) && v.partitions[p.ID].term == p.term
}

// still asks the directory whether the master is still the same.
func (p *partition) still(ctx context.Context) bool {
	since := p.f.now()
	err := retry.Policy{Timeout: time.Duration(p.v.viewTTL)}.Do(ctx, func(int) error {
		err := p.f.refresh(ctx)
		if p.f.view.Load().confirmed.Load() < since {
			return ErrUnavailable.Errorf("the directory does not confirm that the master is still the same").Wrap(err)
		}
		return nil
	})
	return err == nil && p.in(p.f.view.Load())
}

// blocking returns a context for commands that block. It ends when the master's replies
// do not count any more.
func (p *partition) blocking(ctx context.Context, d time.Duration, forever bool) (context.Context, context.CancelFunc) {
	cancel := context.CancelFunc(func() {})
	if !forever && d < math.MaxInt64-blockSlack {
		ctx, cancel = context.WithTimeout(ctx, d+blockSlack)
	}
	ctx, replaced := context.WithCancel(ctx)
	stop := context.AfterFunc(p.term.ctx, replaced)
	return ctx, func() { stop(); replaced(); cancel() }
}

// changed reports whether any of the commands had an effect.
func changed(results []rueidis.RedisResult) bool {
	return slices.ContainsFunc(results, func(r rueidis.RedisResult) bool { return r.Error() == nil })
}
