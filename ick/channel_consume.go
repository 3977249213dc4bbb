package ick

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// heartbeat is the interval at which a consumer reports that it is alive.
	heartbeat = time.Second

	// memberTTL is how long after its last heartbeat a consumer loses its Icks.
	memberTTL = 5 * time.Second

	// perIdleIck is how much longer an idle consumer waits between two polls for each Ick
	// that it serves. A poll takes two commands, so all Icks take 12 a second at most.
	perIdleIck = time.Second / 6
)

// errMoved ends the context of a handler whose Ick may have another consumer by
// now.
var errMoved = &millrace.Error{
	Code:    "moved",
	Message: "another consumer may serve this Ick by now",
	Hint:    "Its marks come again, here or there; nothing is forgotten.",
}

// Consume serves the channel together with all others who do: the Icks are
// shared out evenly, each Ick has one consumer at a time, and each has its own
// loop, as in [Ick.Consume]. So handler is called for several batches at once,
// one for each Ick that is served here, and never for a member that another call
// has, except after a consumer was thought dead or while the channel's size
// changes.
//
// Consumers may come and go at any time. One that comes has its part within
// seconds, as soon as others are done with the batches in hand. One that ends with
// ctx hands over at once, one that dies after five seconds of silence, or when it
// starts again under its name, and whatever it had reserved comes again. A handler's context ends when its
// consumer was silent for so long, since another may work on the batch then; if
// it does so all the same, the commit forgets nothing.
//
// While there is nothing to do, it sends at most 20 commands a second, whatever
// the number of Icks. The marks of producers that do not wake it, such as the
// gem's, are seen within a second if it serves six Icks at most, and later by
// the sixth of a second for each one more.
//
// What does not end an Ick's consumer does not end this one, and neither does a
// single Ick that is broken: that is logged, and the others go on. A channel that
// is broken or of an unknown version ([millrace.ErrBroken], [millrace.ErrVersion]) and a client
// that was closed do.
func (c *Channel) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	m := &member{
		channel: c, cfg: cfg, handler: handler, token: cmp.Or(c.cfg.Consumer, rand.Text()),
		serving: make(map[int]*serving), ended: make(chan *serving),
	}
	defer m.leave(ctx)
	return m.run(ctx)
}

// member is one run of Consume.
//
//	          attend: mine                         attend: too many
//	somebody's ──────────▶ served ──────────────────────────────────▶ let go
//	   ▲                    │  │  the batch in hand is done first        │
//	   │    silent for 5 s, │  │ not used any more, and empty            │
//	   ├────────────────────┘  └──────────▶ retired                      │
//	   └─────────────────────────────────────────────────────────────────┘
type member struct {
	channel *Channel
	cfg     ConsumeConfig
	handler Handler
	token   string

	serving map[int]*serving // by the Ick's index; only run and leave touch it
	ended   chan *serving
	icks    atomic.Int64 // len(serving)

	until    time.Time // when others may take over, as this process counts
	failures int       // attends that failed since the last that did not
}

// serving is the loop of one Ick.
type serving struct {
	index int
	ick   *Ick
	stop  context.CancelFunc      // ends the loop after the batch in hand
	drop  context.CancelCauseFunc // ends the handler, too
	epoch int64                   // under which the Ick was retired; 0 while it is not
}

// run attends until ctx ends, and starts and stops the loops accordingly.
func (m *member) run(ctx context.Context) error {
	var over []*serving // since the last attend
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
			delete(m.serving, s.index)
			over = append(over, s)
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// attend sends a heartbeat, reports the loops that ended since the last one, and starts
// and stops loops as the reply says.
func (m *member) attend(ctx context.Context, over []*serving) error {
	c := m.channel
	known := c.known()
	var released, retired []string
	for _, s := range over {
		if s.epoch == known.epoch {
			retired = append(retired, strconv.Itoa(s.index))
		} else {
			released = append(released, strconv.Itoa(s.index))
		}
	}
	args := append([]string{m.token, strconv.FormatInt(memberTTL.Milliseconds(), 10)}, known.args()...)
	args = append(args, strconv.Itoa(len(released)))
	args = append(append(args, released...), retired...)
	asked := time.Now()
	within, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	r, err := c.call(within, "attend", args...)
	if err != nil {
		return err
	}
	c.entry.Touch()
	seen := readLayout(r)
	mine, surplus := indices(r), indices(r)
	if r.Err() != nil {
		return r.Err()
	}
	c.learn(seen)
	m.until = asked.Add(memberTTL - memberTTL/100)
	if m.failures > 0 {
		m.channel.cfg.Ick.Logger.InfoContext(ctx, "the channel answers again", "failures", m.failures)
	}
	m.failures = 0
	return m.take(ctx, mine, surplus)
}

// take starts and ends loops until those run that should.
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
		_ = loop.run(rounds, work) // it ends with the context or the client
		stop()
		drop(nil)
		m.ended <- s
	}()
	return nil
}

// idle retires an Ick that has nothing to do and that producers no longer use.
func (m *member) idle(ctx context.Context, s *serving) error {
	c := m.channel
	known := c.known()
	if s.index < known.size {
		return nil
	}
	if err := c.moveParked(ctx, s.ick); err != nil {
		return err
	}
	empty, err := s.ick.retire(ctx, known.epoch)
	if err == nil && empty {
		s.epoch = known.epoch
		s.stop()
	}
	return err
}

// closed reports whether an error says that the client was closed. All else may
// be mended while the loop goes on.
func closed(err error) bool { return errors.Is(err, rueidis.ErrClosing) }

// moveParked moves parked members from an Ick that is no longer used to the Ick they
// belong to now, where they are tried again as after Retry.
func (c *Channel) moveParked(ctx context.Context, k *Ick) error {
	for {
		page, _, err := k.parkedPage(ctx, 0)
		if errors.Is(err, millrace.ErrNotFound) || errors.Is(err, errRetired) {
			return nil
		}
		if err != nil || len(page) == 0 {
			return err
		}
		marks, members := make([]mark, len(page)), make([]string, len(page))
		for i, p := range page {
			marks[i], members[i] = mark{member: p.Member, score: p.Score}, p.Member
		}
		if _, err := c.add(ctx, marks); err != nil {
			return err
		}
		if _, err := k.Drop(ctx, members...); err != nil {
			return err
		}
	}
}

// attendFailed ends all handlers when heartbeats have failed for so long that other
// consumers may have taken the Icks.
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

// leave ends all loops, which commit what their handlers finished, and releases the Icks.
func (m *member) leave(ctx context.Context) {
	for _, s := range m.serving {
		s.drop(context.Cause(ctx))
	}
	for len(m.serving) > 0 {
		delete(m.serving, (<-m.ended).index)
	}
	if m.until.IsZero() {
		return // it never attended
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if _, err := m.channel.tidy(ctx, m.token); err != nil {
		m.channel.cfg.Ick.Logger.WarnContext(ctx, "the channel could not be left; other consumers take its Icks within seconds", "error", err)
	}
}

// retire closes the Ick if it is empty, and reports whether it is closed.
func (k *Ick) retire(ctx context.Context, epoch int64) (bool, error) {
	reply, err := k.call(ctx, "retire", strconv.FormatInt(epoch, 10))
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// reopen opens the Ick again if it was retired before epoch.
func (k *Ick) reopen(ctx context.Context, epoch int64) error {
	_, err := k.call(ctx, "reopen", strconv.FormatInt(epoch, 10))
	return err
}

// indices reads a list of Ick indices.
func indices(r *script.Reply) []int {
	list := r.List()
	found := make([]int, 0, list.Len())
	for list.More() {
		if index := list.Int(); index >= 0 && index < maxSize {
			found = append(found, int(index))
		}
	}
	r.Join(list)
	return found
}
