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
	"github.com/millrace/millrace/internal/replicas"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// partition is a master and its replicas, as one view has them.
type partition struct {
	f        *Fleet
	v        *view
	id       int
	epoch    int64
	phase    directory.Phase
	readOnly bool
	term     *term
	members  []*member // the master first
	down     []bool    // by member
	runner   *script.Runner
}

func (p *partition) master() *member { return p.members[0] }

// target is a partition that a command goes to.
type target struct {
	p     *partition
	began int64      // when the caller was permitted to write, by Fleet.now
	place *placement // nil for the client of a partition, and for a tag without a place
}

// write sends a command that may change data to the master.
//
// This is the fence: the caller's view was fresh at began, and a reply later than
// ReplyTimeout after that is not a success. An agent that replaces the master waits for
// both. So no write to a replaced master is reported as a success.
func (t target) write(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	p := t.p
	if t.place != nil && p.f.cfg.ReadYourWrites {
		defer func() { t.place.wrote.Store(p.f.now()) }()
	}
	if p.f.cfg.WaitReplicas > 0 || p.readOnly || cmd.IsBlock() {
		return t.writeAll(ctx, false, cmd)[0]
	}
	c, err := p.master().open(ctx)
	if err != nil {
		return rueidis.NewErrorResult(p.lost(ctx, p.master(), err))
	}
	result := c.Do(ctx, cmd)
	return p.judge(ctx, result, p.f.now()-t.began > p.v.replyTimeout)
}

// writeAll does the same for several commands in one pipeline. With spread it waits a
// moment for a replica to have them.
func (t target) writeAll(ctx context.Context, spread bool, cmds ...rueidis.Completed) []rueidis.RedisResult {
	p := t.p
	if err := p.refuseWrite(cmds); err != nil {
		return all(len(cmds), err)
	}
	return t.send(ctx, nil, spread, p.f.cfg.WaitReplicas, cmds)
}

// refuseWrite returns the reason not to send commands.
func (p *partition) refuseWrite(cmds []rueidis.Completed) error {
	if p.readOnly {
		p.f.refreshSoon()
		return ErrReadOnly.Errorf("partition %d takes no writes now", p.id)
	}
	if p.f.cfg.WaitReplicas > 0 {
		return refusePop(cmds)
	}
	return nil
}

// send sends commands to the master, over the caller's own connection if there is one.
// They succeed only if that many replicas have them.
func (t target) send(caller context.Context, own rueidis.CoreClient, spread bool, need int, cmds []rueidis.Completed) []rueidis.RedisResult {
	p := t.p
	c := own
	var results []rueidis.RedisResult
	var late bool
	var copies replicas.Copies
	var unknown error // why it is not known how many replicas have it
	confirm := func(cmds ...rueidis.Completed) []rueidis.RedisResult {
		// A call that waits has a connection of its own, and delays no others.
		if own == nil {
			c = p.master().waiting()
		}
		ctx, cancel := context.WithTimeout(caller, 2*time.Duration(p.v.replyTimeout))
		defer cancel()
		var results []rueidis.RedisResult
		results, copies, unknown = replicas.ConfirmAmong(ctx, c, members.Base, p.knows, max(1, need), time.Duration(p.v.replyTimeout/2), cmds...)
		return results
	}
	switch blocks, d, forever := blockTimes(cmds); {
	case blocks:
		if own == nil {
			c = p.master().waiting()
		}
		ctx, cancel := p.blocking(caller, d, forever)
		results = c.DoMulti(ctx, cmds...)
		cancel()
		if !changed(results) { // it timed out, and there is nothing to confirm
			need = 0
			break
		}
		if need > 0 {
			confirm()
		}
		// It was executed at an unknown time before now.
		late = !p.counts() && !p.still(caller)
	case need > 0 || spread:
		results = confirm(cmds...)
		late = p.f.now()-t.began > p.v.replyTimeout
	default:
		if own == nil {
			shared, err := p.master().open(caller)
			if err != nil {
				return all(len(cmds), p.lost(caller, p.master(), err))
			}
			c = shared
		}
		results = c.DoMulti(caller, cmds...)
		late = p.f.now()-t.began > p.v.replyTimeout
	}
	for i := range cmds {
		results[i] = p.judge(caller, results[i], late)
	}
	if copies.Have < need {
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
	}
	return results
}

// knows reports whether the map has the replica that the master lists at an address.
// A failover relies only on those.
func (p *partition) knows(ip, port string) bool {
	return slices.ContainsFunc(p.members[1:], func(m *member) bool { return p.f.names.Match(m.addr, ip, port) })
}

// judge returns the result of a write, or an error if it is not a success.
func (p *partition) judge(ctx context.Context, result rueidis.RedisResult, late bool) rueidis.RedisResult {
	if err := result.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(p.lost(ctx, p.master(), err))
	}
	if succeeded(result) {
		if late {
			p.f.refreshSoon()
			return rueidis.NewErrorResult(millrace.ErrUncertain.Errorf("partition %d took longer than %v to answer", p.id, p.v.m.Settings.Effective().ReplyTimeout))
		}
		return result
	}
	if troubled(result.Error()) {
		p.f.refreshSoon()
	}
	return result
}

// succeeded reports whether a command was executed.
func succeeded(result rueidis.RedisResult) bool {
	err := result.Error()
	return err == nil || rueidis.IsRedisNil(err)
}

// troubled reports whether a reply suggests that another server is the master now.
func troubled(err error) bool {
	for _, code := range []string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS"} {
		if retry.Code(err, code) {
			return true
		}
	}
	return false
}

// lost is the error for a member that did not answer.
func (p *partition) lost(ctx context.Context, m *member, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if p.f.ended.Err() != nil {
		return ErrClosed.Wrap(rueidis.ErrClosing)
	}
	p.f.refreshSoon()
	// The cause is kept as text: it may wrap the end of a context that is not the
	// caller's.
	if unsent(err) {
		return ErrUnavailable.Errorf("partition %d: %s cannot be reached", p.id, m.addr).Wrap(errors.New(err.Error()))
	}
	return millrace.ErrUncertain.Errorf("partition %d: %s did not answer", p.id, m.addr).Wrap(errors.New(err.Error()))
}

// read sends a command that changes nothing to a member. If that does not answer, the
// next one is asked; but not for the client of a partition, since only the same server
// can continue a SCAN.
func (t target) read(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	m := t.reader(ctx)
	result := m.ask(ctx, cmd)
	err := result.NonRedisError()
	if err == nil {
		return t.p.answered(m, result)
	}
	err = t.p.lost(ctx, m, err)
	for other := range t.others(ctx, m) {
		if again := other.ask(ctx, cmd); again.NonRedisError() == nil {
			return again
		}
	}
	return rueidis.NewErrorResult(err)
}

// readAll does the same for several commands in one pipeline. They are sent again if
// none was answered.
func (t target) readAll(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	m := t.reader(ctx)
	results := m.askAll(ctx, cmds)
	if answers(results) > 0 {
		for i, result := range results {
			if err := result.NonRedisError(); err != nil {
				results[i] = rueidis.NewErrorResult(t.p.lost(ctx, m, err))
			} else {
				t.p.answered(m, result)
			}
		}
		return results
	}
	err := t.p.lost(ctx, m, results[0].NonRedisError())
	for other := range t.others(ctx, m) {
		if again := other.askAll(ctx, cmds); answers(again) > 0 {
			return again
		}
	}
	return all(len(cmds), err)
}

// answered refreshes the map if a reply suggests that another member is the master.
func (p *partition) answered(m *member, result rueidis.RedisResult) rueidis.RedisResult {
	if err := result.Error(); err != nil && troubled(err) {
		m.refused.Store(p.f.now() + 1)
		p.f.refreshSoon()
	}
	return result
}

func answers(results []rueidis.RedisResult) (n int) {
	for _, result := range results {
		if result.NonRedisError() == nil {
			n++
		}
	}
	return n
}

func (m *member) ask(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c, err := m.open(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.Do(ctx, cmd)
}

func (m *member) askAll(ctx context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
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
