package failover_test

import (
	"context"
	"maps"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
)

// inMembers is how a process reaches the servers.
type inMembers struct{ *process }

var _ failover.Servers = inMembers{}

func (p inMembers) Probe(ctx context.Context, addr string) (members.Report, error) {
	var l members.Report
	s := p.w.server(addr)
	if err := p.call(ctx, &s.host, func() error { l = s.look(); return nil }); err != nil {
		return members.Report{}, err
	}
	p.lie(s, &l)
	return l, nil
}

func (p inMembers) Fence(ctx context.Context, addr string) (members.Report, error) {
	s := p.w.server(addr)
	var l members.Report
	err := p.call(ctx, &s.host, func() error {
		if !p.w.sabotage.soft {
			s.follow(&p.host, nil)
		}
		p.fenced[s] = s.runs
		l = s.look()
		l.Identity, l.Floor, l.Beat = s.identity, s.floor, s.beat
		p.w.say("%s fences %s, at %d of %s", p.name, s.name, s.offset, s.history)
		return nil
	})
	if err != nil {
		return members.Report{}, err
	}
	p.lie(s, &l)
	return l, nil
}

// lie has what an agent is told be something else.
func (p inMembers) lie(s *server, l *members.Report) {
	if lie := p.w.sabotage.look; lie != nil {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		lie(s, l)
	}
}

func (p inMembers) Lead(ctx context.Context, addr, run string, beat members.Beat, restored bool) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error {
		if s.run() != run {
			return errReset
		}
		// Whoever follows it by its address may begin to copy from now on. A call that was
		// held up until another member leads is no election.
		if part := p.w.dir.m.Partitions[s.partition]; part.ReadOnly && !s.master && p.w.turned[s.partition].by == p.name && p.fenced[s] == s.runs {
			p.w.concede(p.name, part, s)
		}
		if s.amnesic && !restored {
			p.w.fail("O: %s was started again, and leads without a word of its older data", s.name)
		}
		s.lead(beat)
		p.w.promoters = append(p.w.promoters, p.process)
		p.w.say("%s has %s lead: %s", p.name, s.name, s.history)
		return nil
	})
}

func (p inMembers) Follow(ctx context.Context, addr, master, run, _ string) error {
	s, m := p.w.server(addr), p.w.server(master)
	return p.call(ctx, &s.host, func() error {
		s.follow(&p.host, m)
		s.pass = run
		p.w.say("%s has %s follow %s, in run %s", p.name, s.name, m.name, run)
		return nil
	})
}

func (p inMembers) Beat(ctx context.Context, addr, _ string, _ int, run string, beat members.Beat) (members.Beat, error) {
	s := p.w.server(addr)
	var wrote members.Beat
	err := p.call(ctx, &s.host, func() error {
		if s.run() != run {
			return errReset
		}
		if err := s.refuses(); err != nil {
			return err
		}
		s.append(entry{size: 50, beat: s.grown(beat)})
		wrote = s.beat
		return nil
	})
	if err != nil { // a late call may write it yet
		return members.Beat{}, err
	}
	return wrote, nil
}

// Admit does nothing: a server here lets its replicas in as long as it runs.
func (p inMembers) Admit(ctx context.Context, master, _ string) error {
	return p.call(ctx, &p.w.server(master).host, func() error { return nil })
}

func (p inMembers) Serve(ctx context.Context, addr, run string) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error {
		if s.run() != run {
			return errReset
		}
		s.serves = true
		return nil
	})
}

func (p inMembers) Hide(ctx context.Context, addr string) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error { s.serves = false; return nil })
}

func (p inMembers) Restart(ctx context.Context, addr, run string) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error {
		if s.run() != run || s.master {
			return errReset
		}
		p.w.restart(p.name, s)
		return nil
	})
}

func (p inMembers) Retire(ctx context.Context, addr, run, identity string) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error {
		if s.run() == run && s.identity == identity {
			s.follow(&p.host, nil)
			s.identity, s.history = "", s.newHistory()
		}
		return nil
	})
}

func (p inMembers) Need(ctx context.Context, addr string, replicas int) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error { s.need = replicas; return nil })
}

// inDirectory is how a process reaches the directory.
type inDirectory struct {
	*process
	directory.Directory // what agents do not call
}

// ask asks the directory and returns its answer.
func ask[T any](ctx context.Context, p *process, answer func(d *simDirectory) (T, error)) (T, error) {
	d := p.w.dir
	return reach(ctx, d, &p.host, p.call, func(k *keeper) (T, error) {
		if err := d.decides(k); err != nil {
			var none T
			return none, err
		}
		return answer(d)
	})
}

func (p inDirectory) Load(ctx context.Context) (*directory.Map, error) { return p.Confirm(ctx, 0) }

func (p inDirectory) Confirm(ctx context.Context, epoch int64) (*directory.Map, error) {
	m, err := ask(ctx, p.process, func(d *simDirectory) (*directory.Map, error) { return d.confirm(d.m, epoch), nil })
	if err != nil || m == nil {
		return nil, err
	}
	if p.w.sabotage.hasty {
		m.Settings.ViewTTL, m.Settings.ReplyTimeout = 1, 1
	}
	if p.w.sabotage.aged {
		m.Settings.MaxAge = time.Hour
	}
	if p.w.sabotage.few {
		m.Settings.Confirmed = lenient
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for id, part := range p.blind {
		m.Partitions[id] = part
	}
	return m, nil
}

// Change is tried for ten seconds, as the real one is.
func (p inDirectory) Change(ctx context.Context, epoch int64, next *directory.Map) error {
	for i := range next.Partitions {
		if part := &next.Partitions[i]; p.w.sabotage.forgotten && part.ReadOnly {
			part.Leaving = nil
		}
	}
	next = next.Clone()
	next.Settings = p.w.settings
	for begun := time.Now(); ; {
		_, err := ask(ctx, p.process, func(d *simDirectory) (any, error) { return nil, d.change(p.name, epoch, next) })
		switch {
		case err == nil:
			p.remember(next)
			return nil
		case !inTrouble(err):
			return err
		}
		if time.Since(begun) > 10*time.Second || !retry.Sleep(ctx, 300*time.Millisecond) {
			return err
		}
	}
}

// remember has a sabotaged process see what it made read-only as it was then, until
// it has made it full.
func (p inDirectory) remember(m *directory.Map) {
	if !p.w.sabotage.blind {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, part := range m.Partitions {
		if delete(p.blind, part.ID); part.ReadOnly {
			p.blind[part.ID] = part
		}
	}
}

func (p inDirectory) Lead(ctx context.Context, agent string, life time.Duration) (bool, time.Duration, error) {
	var settled time.Duration
	leads, err := ask(ctx, p.process, func(d *simDirectory) (bool, error) { settled = d.settled(); return d.lead(agent, life), nil })
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if len(p.blind) > 0 {
		return true, settled, nil
	}
	return leads, settled, err
}

func (p inDirectory) Turn(ctx context.Context, node, holder string, life time.Duration) (bool, error) {
	return ask(ctx, p.process, func(d *simDirectory) (bool, error) { return d.turn(node, holder, life), nil })
}

func (p inDirectory) Beats(ctx context.Context) (directory.Beats, error) {
	return ask(ctx, p.process, func(d *simDirectory) (directory.Beats, error) { return maps.Clone(d.beats), nil })
}

func (p inDirectory) KeepBeats(ctx context.Context, beats directory.Beats) error {
	_, err := ask(ctx, p.process, func(d *simDirectory) (any, error) { d.beats = maps.Clone(beats); return nil, nil })
	return err
}

func (p inDirectory) Note(ctx context.Context, event directory.Event) error {
	_, err := ask(ctx, p.process, func(d *simDirectory) (int, error) { d.events = append(d.events, event); return len(d.events), nil })
	return err
}

func (p inDirectory) Events(ctx context.Context) ([]directory.Event, error) {
	return ask(ctx, p.process, func(d *simDirectory) ([]directory.Event, error) { return d.events, nil })
}
