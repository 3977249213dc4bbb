package failover_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
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

func (p inMembers) Inspect(ctx context.Context, addr string) (recovery.Inspection, error) {
	var i recovery.Inspection
	s := p.w.server(addr)
	err := p.call(ctx, &s.host, func() (err error) {
		i.Report = s.look()
		i.Identity, i.Floor = s.identity, s.floor // a fenced one is opened for a moment
		if s.held != nil {
			var text []byte
			text, err = json.Marshal(s.held)
			if _, err := directory.Unpack(string(text)); err != nil {
				p.w.fail("the simulation is broken: %v", err)
			}
			i.Held = members.Copy{Epoch: s.held.Epoch, Text: string(text)}
		}
		return err
	})
	if err != nil {
		return recovery.Inspection{}, err
	}
	p.lie(s, &i.Report)
	return i, nil
}

func (p inMembers) Keep(ctx context.Context, addr, _ string, _ int, held members.Copy) error {
	s := p.w.server(addr)
	m := unpack(held.Text)
	return p.call(ctx, &s.host, func() error { return s.keep(m) })
}

func (p inMembers) Raise(ctx context.Context, addr, _ string, _ int, floor int64, _ bool) error {
	s := p.w.server(addr)
	return p.call(ctx, &s.host, func() error {
		err := s.refuses()
		if err == nil && s.floor < floor && !p.w.sabotage.floorless {
			s.append(entry{size: 60, floor: floor})
		}
		return err
	})
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

// lie falsifies a member's report to an agent.
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
		// A replica that follows it by its address may begin to copy from now on. A call that was
		// held up until another member leads is no election.
		if part := p.w.dir.m.Partitions[s.partition]; part.ReadOnly && !s.master && p.w.turned[s.partition].by == p.name && p.fenced[s] == s.runs {
			p.w.concede(p.name, part, s)
		}
		if part := p.w.dir.m.Partitions[s.partition]; part.RestoreHistory != "" && part.Restore == s.name && s.history != part.RestoreHistory {
			p.w.fail("P: %s has %s lead with %s, and a person has chosen %s", p.name, s.name, s.history, part.RestoreHistory)
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

// inDirectory is the store of a process's directory: how it reaches the servers.
type inDirectory struct{ *process }

var _ directory.Store = inDirectory{}

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

func (p inDirectory) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	return ask(ctx, p.process, func(d *simDirectory) ([]directory.Value, error) {
		values, err := d.Get(ctx, read, names...)
		if p.deceived() && (names[0] == "epoch" || strings.HasPrefix(names[0], "change/")) {
			p.deceive(names, values)
		}
		return values, err
	})
}

func (p inDirectory) Put(ctx context.Context, revision string, texts ...directory.Text) (bool, error) {
	refused := false
	if texts[0].Name == "epoch" {
		texts, refused = p.undeceive(texts)
	}
	done, err := ask(ctx, p.process, func(d *simDirectory) (bool, error) { return d.put(p.name, revision, texts...) })
	if err == nil && done && texts[0].Name == "epoch" {
		p.remember(unpack(texts[1].Text))
	}
	return done && !refused, err
}

func (p inDirectory) Hold(ctx context.Context, name, holder string, life time.Duration) (string, error) {
	by, err := ask(ctx, p.process, func(d *simDirectory) (string, error) { return d.Hold(ctx, name, holder, life) })
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if name == "agent" && len(p.blind) > 0 {
		return holder, nil
	}
	return by, err
}

func (p inDirectory) Examine(context.Context, time.Duration) []directory.Remark { return nil }
func (p inDirectory) Close()                                                    {}

// deceived reports whether a sabotage shows the process another map than the one that is stored.
func (p inDirectory) deceived() bool {
	return p.w.sabotage.hasty || p.w.sabotage.few || p.w.sabotage.aged || len(p.blind) > 0
}

// deceive replaces the map that was read by another one.
func (p inDirectory) deceive(names []string, values []directory.Value) {
	m := p.w.dir.m.Clone()
	if p.w.sabotage.hasty {
		m.Settings.ViewTTL, m.Settings.ReplyTimeout = time.Millisecond, time.Millisecond
	}
	if p.w.sabotage.aged {
		m.Settings.MaxAge = time.Hour
	}
	if p.w.sabotage.few {
		m.Settings.Confirmed = lenient
	}
	for id, part := range p.blind {
		m.Partitions[id] = part
	}
	packed, _ := m.Pack()
	for i, name := range names {
		switch name {
		case "epoch":
			values[i].Text = restamped(values[i].Text, packed)
		case "map":
			values[i].Text = packed
		default:
			values[i] = directory.Value{} // the changes between the true maps
		}
	}
}

// undeceive restores the parts that deceive has changed. A sabotage may have it forget the
// members that leave: then the process is to read the map again.
func (p inDirectory) undeceive(texts []directory.Text) (stored []directory.Text, again bool) {
	if !p.w.sabotage.hasty && !p.w.sabotage.few && !p.w.sabotage.aged && !p.w.sabotage.forgotten {
		return texts, false
	}
	m := unpack(texts[1].Text)
	m.Settings = p.w.settings
	for i := range m.Partitions {
		if part := &m.Partitions[i]; p.w.sabotage.forgotten && part.ReadOnly && part.Leaving != nil {
			part.Leaving, again = nil, true
		}
	}
	packed, _ := m.Pack()
	return []directory.Text{{Name: "epoch", Text: restamped(texts[0].Text, packed)}, {Name: "map", Text: packed}, {Name: texts[2].Name}}, again
}

// restamped returns the value "epoch" for another map of the same epoch.
func restamped(text, packed string) string {
	words := strings.Fields(text)
	words[2] = directory.Sum(packed)
	return strings.Join(words, " ")
}

// remember makes a sabotaged process see a map that it made read-only as it was then,
// until it has made it full.
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
