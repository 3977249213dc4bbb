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

// target is a partition to which something goes.
type target struct {
	p     *partition
	began int64      // when the caller was found to be allowed to write, see Fleet.now
	place *placement // nil for who asks for a partition, or for a tag that has none
}

// write has the master do what may change data.
//
// This is the fence: the caller's view was fresh when began was read off the
// clock, and what is answered later than the reply limit after that is no success.
// Whoever replaces the master waits for both to pass, and so nothing that was done
// by a master that had been replaced is ever taken for done.
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

// writeAll does the same for several commands, all of which are sent at once. With
// spread it waits a moment for a replica to have them.
func (t target) writeAll(ctx context.Context, spread bool, cmds ...rueidis.Completed) []rueidis.RedisResult {
	p := t.p
	if err := p.refuseWrite(cmds); err != nil {
		return all(len(cmds), err)
	}
	return t.send(ctx, nil, spread, p.f.cfg.WaitReplicas, cmds)
}

// refuseWrite returns why commands are not sent.
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
// It needs so many replicas to have them.
func (t target) send(caller context.Context, own rueidis.CoreClient, spread bool, need int, cmds []rueidis.Completed) []rueidis.RedisResult {
	p := t.p
	c := own
	var results []rueidis.RedisResult
	var late bool
	var copies replicas.Copies
	var unknown error // why nobody knows how many replicas have it
	confirm := func(cmds ...rueidis.Completed) []rueidis.RedisResult {
		// What waits has a connection of its own, which nobody else notices to hang.
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
		if !changed(results) { // its time was over, and there is nothing to confirm
			need = 0
			break
		}
		if need > 0 {
			confirm()
		}
		// When it was done nobody knows, only that it was before now.
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
			few = few.Wrap(errors.New(unknown.Error())) // in words, see lost
		case len(copies.Others) > 0:
			few = few.Wrap(fmt.Errorf("the map does not have those at %s", strings.Join(copies.Others, ", ")))
		}
		for i := range cmds {
			if succeeded(results[i]) {
				results[i] = rueidis.NewErrorResult(few)
			}
		}
	}
	return results
}

// knows reports whether a replica that the master knows by an address is one of the
// map's. A failover counts only on those.
func (p *partition) knows(ip, port string) bool {
	return slices.ContainsFunc(p.members[1:], func(m *member) bool { return p.f.names.Match(m.addr, ip, port) })
}

// judge says what became of a write.
func (p *partition) judge(ctx context.Context, result rueidis.RedisResult, late bool) rueidis.RedisResult {
	if err := result.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(p.lost(ctx, p.master(), err))
	}
	if succeeded(result) {
		if late {
			p.f.refreshSoon()
			return rueidis.NewErrorResult(millrace.ErrUncertain.Errorf("partition %d answered later than within %v", p.id, p.v.m.Settings.Effective().ReplyTimeout))
		}
		return result
	}
	if troubled(result.Error()) {
		p.f.refreshSoon()
	}
	return result
}

// succeeded reports whether a command did what it was to do.
func succeeded(result rueidis.RedisResult) bool {
	err := result.Error()
	return err == nil || rueidis.IsRedisNil(err)
}

// troubled reports whether a reply says that another server may be the one to ask.
func troubled(err error) bool {
	for _, code := range []string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS"} {
		if retry.Code(err, code) {
			return true
		}
	}
	return false
}

// lost says what it means that a member did not answer.
func (p *partition) lost(ctx context.Context, m *member, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if p.f.ended.Err() != nil {
		return ErrClosed.Wrap(rueidis.ErrClosing)
	}
	p.f.refreshSoon()
	// The cause is told in words: it may hold the end of a context that is not the
	// caller's.
	if unsent(err) {
		return ErrUnavailable.Errorf("partition %d: %s cannot be reached", p.id, m.addr).Wrap(errors.New(err.Error()))
	}
	return millrace.ErrUncertain.Errorf("partition %d: %s did not answer", p.id, m.addr).Wrap(errors.New(err.Error()))
}

// read has a member do what changes nothing. If it does not answer, the next one is
// asked, but not by who asks for a partition: what a SCAN has begun only the same
// server can go on with.
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

// readAll does the same for several commands, all of which are sent at once. They
// are sent again if none was answered.
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

// answered looks at what a member said, and has the map looked at if it said that
// another one may be the one to ask.
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
