package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/replicas"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// partition is a master and its replicas, as one view has them.
type partition struct {
	*directory.Partition

	f       *Fleet
	v       *view
	term    *term
	members []*member // the master first
	runner  *script.Runner
}

func (p *partition) master() *member { return p.members[0] }

// target is a partition that a command goes to.
type target struct {
	p     *partition
	began int64      // when the caller was permitted to write, by Fleet.now
	place *placement // nil for the client of a partition, and for a tag without a place
}

// writeAll sends commands that may change data to the master, in one pipeline. With spread
// it waits a moment for a replica to have them.
func (t target) writeAll(ctx context.Context, spread bool, cmds []rueidis.Completed) []rueidis.RedisResult {
	need := t.p.f.cfg.WaitReplicas
	if script.IsLosable(ctx) {
		need = 0
	}
	if err := t.p.refuseWrite(cmds, need); err != nil {
		return all(len(cmds), err)
	}
	return t.send(ctx, nil, spread, need, cmds)
}

// refuseWrite returns the reason not to send commands that so many replicas must have.
func (p *partition) refuseWrite(cmds []rueidis.Completed, need int) error {
	if p.ReadOnly {
		p.f.refreshSoon()
		return ErrReadOnly.Errorf("partition %d takes no writes now", p.ID)
	}
	if need > 0 {
		return refusePop(cmds)
	}
	return nil
}

// send sends commands to the master, over the caller's own connection if there is one.
// They succeed only if so many replicas have them.
//
// This is the fence: the caller's view was fresh at began, and a reply later than
// ReplyTimeout after that is not a success. An agent that replaces the master waits for
// both. So no write to a replaced master is reported as a success.
func (t target) send(ctx context.Context, c rueidis.CoreClient, spread bool, need int, cmds []rueidis.Completed) []rueidis.RedisResult {
	p := t.p
	blocks, d, forever := blockTimes(cmds)
	switch {
	case c != nil:
	case blocks || need > 0 || spread: // on a connection of its own it delays no other call
		c = p.master().waiting()
	default:
		shared, err := p.master().open(ctx)
		if err != nil {
			return all(len(cmds), p.lost(ctx, p.master(), err, ErrUnavailable))
		}
		c = shared
	}
	var results []rueidis.RedisResult
	var late bool
	var copies replicas.Copies
	var unknown error // why it is not known how many replicas have it
	confirm := func(cmds ...rueidis.Completed) (results []rueidis.RedisResult) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Duration(p.v.replyTimeout))
		defer cancel()
		results, copies, unknown = replicas.ConfirmAmong(ctx, c, members.Base, p.knows, max(1, need), time.Duration(p.v.replyTimeout/2), cmds...)
		return results
	}
	switch {
	case blocks:
		waiting, cancel := p.blocking(ctx, d, forever)
		results = c.DoMulti(waiting, cmds...)
		cancel()
		if !changed(results) { // it timed out, and there is nothing to confirm
			need = 0
			break
		}
		if need > 0 {
			confirm()
		}
		// It was executed at an unknown time before now.
		late = !p.counts() && !p.still(ctx)
	case need > 0 || spread:
		results = confirm(cmds...)
		late = p.f.now()-t.began > p.v.replyTimeout
	default:
		results = c.DoMulti(ctx, cmds...)
		late = p.f.now()-t.began > p.v.replyTimeout
	}
	for i := range cmds {
		results[i] = p.judge(ctx, results[i], late)
	}
	if copies.Have >= need {
		return results
	}
	few := millrace.ErrUncertain.Errorf("%d of %d replicas have the write", copies.Have, need)
	switch {
	case unknown != nil:
		few = few.Wrap(errors.New(unknown.Error())) // as text, see lost
	case len(copies.Others) > 0:
		few = few.Wrap(fmt.Errorf("the replicas at %s are not in the map", strings.Join(copies.Others, ", ")))
	}
	for i := range cmds {
		if succeeded(results[i]) {
			results[i] = rueidis.NewErrorResult(few)
		}
	}
	return results
}

// knows reports whether the map has the replica that the master lists at an address:
// failovers rely only on those.
func (p *partition) knows(ip, port string) bool {
	return slices.ContainsFunc(p.members[1:], func(m *member) bool { return p.f.names.Match(m.addr, ip, port) })
}

// judge returns the result of a write, or an error if it is not a success.
func (p *partition) judge(ctx context.Context, result rueidis.RedisResult, late bool) rueidis.RedisResult {
	if late && succeeded(result) {
		p.f.refreshSoon()
		return rueidis.NewErrorResult(millrace.ErrUncertain.Errorf("partition %d took longer than %v to answer", p.ID, time.Duration(p.v.replyTimeout)))
	}
	return p.named(ctx, p.master(), result, ErrReadOnly)
}

// named returns a result whose error, if a member did not answer or refused the command, is one of
// this library with the member's inside. A refused command changed nothing. trouble is for a member
// that cannot do it now.
func (p *partition) named(ctx context.Context, m *member, result rueidis.RedisResult, trouble *millrace.Error) rueidis.RedisResult {
	err := result.Error()
	switch {
	case succeeded(result):
		return result
	case result.NonRedisError() != nil:
		err = p.lost(ctx, m, err, trouble)
	case troubled(err):
		p.f.refreshSoon()
		err = trouble.Errorf("partition %d: %s refuses commands for now", p.ID, m.addr).Wrap(err)
	case retry.Code(err, "OOM"):
		err = millrace.ErrFull.Errorf("partition %d is full", p.ID).Wrap(err)
	default:
		return result
	}
	return rueidis.NewErrorResult(err)
}

// succeeded reports whether a command was executed.
func succeeded(result rueidis.RedisResult) bool {
	err := result.Error()
	return err == nil || rueidis.IsRedisNil(err)
}

// troubled reports whether a reply suggests that another server is the master now.
func troubled(err error) bool {
	return slices.Contains([]string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS"}, retry.Word(err))
}

// lost returns the error for a member that did not answer, or trouble if it was restarted.
func (p *partition) lost(ctx context.Context, m *member, err error, trouble *millrace.Error) error {
	if ctx.Err() != nil {
		return err
	}
	if p.f.ended.Err() != nil {
		return ErrClosed.Wrap(rueidis.ErrClosing)
	}
	p.f.refreshSoon()
	// The cause is kept as text: it may wrap the end of a context that is not the
	// caller's.
	switch {
	case errors.Is(err, errRestarted):
		return trouble.Errorf("partition %d: %s was restarted, and no agent has examined its data since", p.ID, m.addr)
	case retry.Unsent(err):
		return ErrUnavailable.Errorf("partition %d: %s cannot be reached", p.ID, m.addr).Wrap(errors.New(err.Error()))
	}
	return millrace.ErrUncertain.Errorf("partition %d: %s did not answer", p.ID, m.addr).Wrap(errors.New(err.Error()))
}

// read sends commands that change nothing to a member, in one pipeline. If it answers none of
// them, or refuses them, others are asked: first the master, which may only have dropped a
// connection, then replicas with a copy. The client of a partition asks no other, since only the
// same server can continue a SCAN.
func (t target) read(ctx context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
	m := t.reader(ctx)
	if len(t.p.members) > 1 {
		for i := range cmds {
			cmds[i].Pin() // they may be sent again, and a connection that failed may still be writing them
		}
	}
	first := m.ask(ctx, cmds)
	if slices.ContainsFunc(first, answered) {
		return t.results(ctx, m, first)
	}
	first = t.results(ctx, m, first)
	for i, other := range t.p.members {
		if t.place == nil || ctx.Err() != nil || i > 0 && (other == m || !t.p.health(ctx, other).synced) {
			continue
		}
		if again := other.ask(ctx, cmds); slices.ContainsFunc(again, answered) {
			return t.results(ctx, other, again)
		}
	}
	return first
}

// results returns a member's answers to reads.
func (t target) results(ctx context.Context, m *member, results []rueidis.RedisResult) []rueidis.RedisResult {
	for i, result := range results {
		if err := result.Error(); troubled(err) || errors.Is(err, errRestarted) {
			m.refuses.Store(t.p.f.now() + healthValid)
		}
		results[i] = t.p.named(ctx, m, result, ErrUnavailable)
	}
	return results
}

// answered reports whether a member ran the command, or refused it with a reason.
func answered(result rueidis.RedisResult) bool {
	return result.NonRedisError() == nil && !troubled(result.Error())
}

func (m *member) ask(ctx context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
	c, err := m.open(ctx)
	if err != nil {
		return all(len(cmds), err)
	}
	return c.DoMulti(ctx, cmds...)
}

// all returns the same error for each of n commands.
func all(n int, err error) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, n)
	for i := range results {
		results[i] = rueidis.NewErrorResult(err)
	}
	return results
}
