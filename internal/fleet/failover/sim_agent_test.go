package failover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
)

// agency is a machine on which an agent is started again when it dies.
type agency struct {
	w      *world
	number int
	lives  int
	now    *process
}

// process is one that runs an agent. It is all that the agent sees of the world, and
// it can be killed and stopped at any of the agent's calls.
type process struct {
	host

	w      *world
	of     *agency
	end    context.CancelFunc
	thaw   chan struct{} // closed when it goes on; nil if it runs
	calls  int
	fenced map[*server]int             // in which of its runs it fenced a server
	blind  map[int]directory.Partition // for a sabotage: the partitions that it last made read-only
}

// step is the fault of a process at one of its calls.
type step struct {
	call   int
	after  bool          // the call has had its effect, and its answer has not arrived
	freeze time.Duration // 0 to kill it
}

// sabotage is a protection that is taken out, or several.
type sabotage struct {
	look      func(s *server, l *members.Report) // changes the reports that agents see
	hasty     bool                               // agents wait no grace
	few       bool                               // agents take it that all replicas have each write
	soft      bool                               // no member is fenced
	blind     bool                               // the last change is made whatever the epoch is
	stale     bool                               // clients write by maps of any age
	late      bool                               // and take late replies for successes
	sameRun   bool                               // servers that were started again say they were not
	serve     bool                               // members are read before any agent has examined them
	anyRun    bool                               // replicas copy any server at their master's address
	aged      bool                               // agents go on with data of any age
	forgotten bool                               // elections do not know the member that leaves
	floorless bool                               // masters do not learn the floor of new partitions
	local     bool                               // a server of etcd confirms without a majority
}

var errDead = errors.New("this process is dead")

func (a *agency) start() {
	w := a.w
	ctx, cancel := context.WithCancel(context.Background())
	a.lives++
	p := &process{host: w.newHost(fmt.Sprintf("agent %d.%d", a.number, a.lives)), w: w, of: a, end: cancel, fenced: map[*server]int{}, blind: map[int]directory.Partition{}}
	p.net = -a.number
	a.now = p
	w.say("%s is started", p.name)
	w.working.Go(func() {
		agent := failover.New(directory.New(inDirectory{p}), inMembers{p}, failover.Config{Interval: w.every, Logger: slog.New(&logbook{p: p})})
		_ = agent.Run(ctx)
	})
}

// crash kills the process: none of its pending calls is carried out.
func (p *process) crash() {
	if !p.down {
		p.down, p.trouble = true, time.Now()
		p.w.say("%s dies", p.name)
		p.end()
		p.goOn()
	}
}

// freeze stops the process, also in the middle of a call.
func (p *process) freeze() {
	if !p.down && p.thaw == nil {
		p.thaw, p.trouble = make(chan struct{}), time.Now()
		p.w.say("%s is stopped", p.name)
	}
}

func (p *process) goOn() {
	if p.thaw != nil {
		close(p.thaw)
		p.thaw = nil
		p.trouble = time.Now()
		if !p.down {
			p.w.say("%s goes on", p.name)
		}
	}
}

// gate returns when the process runs, and an error if it is dead.
func (p *process) gate() error {
	for {
		p.w.mu.Lock()
		down, thaw := p.down, p.thaw
		p.w.mu.Unlock()
		switch {
		case down:
			return errDead
		case thaw == nil:
			return nil
		}
		<-thaw
	}
}

// meet applies the schedule's fault for this call.
func (p *process) meet(call int, after bool) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s := w.step; {
	case w.calm || p.down:
	case s != nil && p.of.number == 1 && p.of.lives == 1 && s.call == call && s.after == after:
		w.say("%s is at call %d, after it: %v", p.name, call, after)
		p.strike(s.freeze)
	case s == nil && w.script == nil && w.draw(&p.host, &p.host, 4000) == 0:
		p.strike(time.Duration(w.draw(&p.host, &p.host, 2) * w.draw(&p.host, &p.host, int64(8*time.Second))))
	}
}

// strike stops it for a while, or kills it and has another one started.
func (p *process) strike(freeze time.Duration) {
	if freeze > 0 {
		p.freeze()
		p.w.later(freeze, p.goOn)
		return
	}
	p.crash()
	p.w.later(time.Duration(p.w.draw(&p.host, &p.host, int64(4*time.Second))), p.of.restart)
}

func (a *agency) restart() {
	if a.now.down && !a.w.over {
		a.start()
	}
}

// call carries a call of the agent to a host.
func (p *process) call(ctx context.Context, to *host, do func() error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	p.w.mu.Lock()
	p.calls++
	call := p.calls
	p.w.mu.Unlock()
	p.meet(call, false)
	if err := p.gate(); err != nil {
		return err
	}
	err := p.w.carry(ctx, &p.host, to, do)
	p.meet(call, true)
	if dead := p.gate(); dead != nil {
		return dead
	}
	return err
}

// logbook puts the log of an agent into the history.
type logbook struct {
	p *process
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logbook) WithGroup(string) slog.Handler            { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	args := []any{}
	r.Attrs(func(a slog.Attr) bool { args = append(args, a); return true })
	l.p.w.mu.Lock()
	defer l.p.w.mu.Unlock()
	if !l.p.down {
		l.p.w.say("%s says: %s %v", l.p.name, r.Message, args)
	}
	return nil
}
