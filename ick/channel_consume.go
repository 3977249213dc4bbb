package ick

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// heartbeat is the interval at which a consumer reports that it is alive.
	heartbeat = time.Second

	// memberTTL is how long after its last heartbeat a consumer keeps its Icks.
	memberTTL = 5 * time.Second

	// perIdleIck is the poll interval of an idle consumer for each Ick that it serves. A poll
	// takes two commands, so all Icks take 12 a second at most.
	perIdleIck = time.Second / 6
)

// Consume serves the channel together with its other consumers. The Icks are divided evenly
// among them, each Ick has one consumer at a time, and each has its own loop, as in
// [Ick.Consume]. So the handler is called for several batches at once, one for each Ick that is
// served here, and never for a member that another call has, except after a consumer was
// believed dead or while the channel's size changes.
//
// Consumers may start and stop at any time. A new one gets its Icks within seconds, when the
// others have finished their batches. One whose ctx ends releases its Icks at once. One that dies
// loses them after five seconds of silence, or when it restarts under its name; members that it had
// reserved are reserved again. After the same silence a handler's context ends, because another
// consumer may have its batch.
//
// An idle consumer sends at most 20 commands a second, whatever the number of Icks. It finds the
// marks of producers that do not wake it, such as the gem's, within a second if it serves at
// most six Icks; each further Ick adds a sixth of a second.
//
// It ends for the reasons for which [Ick.Consume] ends, but not for a single broken Ick: it logs
// that and serves the others. A broken channel ([millrace.ErrBroken]), an unknown version
// ([millrace.ErrVersion]) and a closed client end it. The error also wraps [ErrUncommitted] if an
// Ick does not answer at the end.
func (c *Channel) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	m := &member{
		channel: c, cfg: cfg, handler: handler, token: cmp.Or(c.cfg.Consumer, rand.Text()),
		serving: make(map[int]*serving), ended: make(chan *serving),
	}
	return m.leave(ctx, m.run(ctx))
}

// member is one run of Consume.
//
//	        attend: mine                         attend: too many
//	another's ──────────▶ served ──────────────────────────────────▶ released
//	   ▲                   │  │  finishes its batch first              │
//	   │   silent for 5 s  │  │ no longer used, and empty              │
//	   ├───────────────────┘  └──────────▶ retired                     │
//	   └───────────────────────────────────────────────────────────────┘
type member struct {
	channel *Channel
	cfg     ConsumeConfig
	handler Handler
	token   string

	serving map[int]*serving // by the Ick's index; only run and leave touch it
	ended   chan *serving
	icks    atomic.Int64 // len(serving)

	until    time.Time // when others may take the Icks, by this process's clock
	failures int       // failed attends in a row

	uncommitted []error // of loops that ended with the member
}

// serving is the loop of one Ick.
type serving struct {
	index int
	ick   *Ick
	stop  context.CancelFunc      // ends the loop after its batch
	drop  context.CancelCauseFunc // ends the handler, too
	epoch int64                   // under which the Ick was retired; 0 while it is not
	err   error                   // why the loop ended, when it is sent to ended
}

// run attends until ctx ends, and starts and stops the loops accordingly.
func (m *member) run(ctx context.Context) error {
	var over []handover // since the last attend
	for ctx.Err() == nil {
		pause := heartbeat - heartbeat/10 + mathrand.N(heartbeat/5)
		switch err := m.attend(ctx, over); {
		case err == nil:
			over = nil
		case ctx.Err() != nil:
		case permanent(err):
			return err
		default:
			m.attendFailed(ctx, err)
			pause = retry.Policy{Base: 50 * time.Millisecond, Max: heartbeat}.Pause(m.failures)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case s := <-m.ended:
			m.end(ctx, s, ctx.Err() != nil)
			over = append(over, handover{s.index, s.epoch})
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// attend sends a heartbeat with the loops that ended since the last one, and starts and stops
// loops as the reply says.
func (m *member) attend(ctx context.Context, over []handover) error {
	asked := time.Now()
	within, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	mine, surplus, err := m.channel.attend(within, m.token, memberTTL, over)
	if err != nil {
		return err
	}
	m.until = asked.Add(memberTTL - memberTTL/100)
	if m.failures > 0 {
		m.channel.cfg.Ick.Logger.InfoContext(ctx, "the channel answers again", "failures", m.failures)
	}
	m.failures = 0
	return m.take(ctx, mine, surplus)
}

// take starts loops for the consumer's own Icks, and ends the others.
func (m *member) take(ctx context.Context, mine, surplus []int) error {
	own := make(map[int]bool, len(mine))
	for _, index := range mine {
		own[index] = true
		if m.serving[index] == nil {
			if err := m.start(ctx, index); err != nil {
				return err
			}
		}
	}
	for index, s := range m.serving {
		if !own[index] {
			s.drop(errMoved)
		}
	}
	for _, index := range surplus {
		m.serving[index].stop()
	}
	m.icks.Store(int64(len(m.serving)))
	return nil
}

// start serves an Ick.
func (m *member) start(ctx context.Context, index int) error {
	k, err := m.channel.ick(index)
	if err != nil {
		return err
	}
	s := &serving{index: index, ick: k}
	work, drop := context.WithCancelCause(ctx)
	rounds, stop := context.WithCancel(work)
	s.drop, s.stop = drop, stop
	m.serving[index] = s
	loop := &consumer{
		ick: k, cfg: m.cfg, handler: m.handler, permanent: closed,
		idle: func(ctx context.Context) error { return m.idle(ctx, s) },
		pace: func() time.Duration { return time.Duration(m.icks.Load()) * perIdleIck },
	}
	go func() {
		s.err = loop.run(rounds, work) // it ends with the context or the client
		stop()
		drop(nil)
		m.ended <- s
	}()
	return nil
}

// idle retires an Ick that has nothing to do and that producers no longer use.
func (m *member) idle(ctx context.Context, s *serving) error {
	epoch, err := m.channel.retire(ctx, s.index, s.ick)
	if epoch != 0 {
		s.epoch = epoch
		s.stop()
	}
	return err
}

// closed reports whether the client was closed. All other errors may end while the loop continues.
func closed(err error) bool { return errors.Is(err, rueidis.ErrClosing) }

// attendFailed ends all handlers when other consumers may have taken the Icks.
func (m *member) attendFailed(ctx context.Context, err error) {
	m.failures++
	log := slog.LevelDebug
	if m.failures == 1 {
		log = slog.LevelWarn
	}
	m.channel.cfg.Ick.Logger.Log(ctx, log, "the channel does not answer", "error", err, "failures", m.failures)
	if time.Now().After(m.until) {
		for _, s := range m.serving {
			s.drop(errMoved)
		}
	}
}

// end forgets a loop that has ended. It keeps the error of an uncommitted batch if the member ends, too, and logs it
// if another one has the Ick.
func (m *member) end(ctx context.Context, s *serving, last bool) {
	delete(m.serving, s.index)
	switch {
	case !errors.Is(s.err, ErrUncommitted):
	case last:
		m.uncommitted = append(m.uncommitted, s.err)
	default:
		m.channel.cfg.Ick.Logger.WarnContext(ctx, "a batch could not be committed and is reserved again", "ick", s.ick.name, "error", s.err)
	}
}

// leave ends all loops, which commit members their handlers finished, and releases the Icks. It returns the error of a
// consumer that ends for that cause.
func (m *member) leave(ctx context.Context, cause error) error {
	for _, s := range m.serving {
		s.drop(cause)
	}
	for len(m.serving) > 0 {
		m.end(ctx, <-m.ended, true)
	}
	if !m.until.IsZero() { // else it never attended
		m.release(ctx)
	}
	if len(m.uncommitted) == 0 {
		return cause
	}
	err := errors.Join(m.uncommitted...)
	if !errors.Is(err, cause) { // a loop may have ended for another one
		err = errors.Join(err, cause)
	}
	return err
}

// release releases the Icks.
func (m *member) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if _, err := m.channel.tidy(ctx, m.token); err != nil {
		m.channel.cfg.Ick.Logger.WarnContext(ctx, "a consumer could not leave the channel; others take its Icks within seconds", "error", err)
	}
}
