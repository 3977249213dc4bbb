package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// watchInterval is how often a scene looks at its structure and shows progress.
	watchInterval = 25 * time.Millisecond

	// A worker is killed after a random time between these two.
	killAfter  = 250 * time.Millisecond
	killBefore = 500 * time.Millisecond

	// stuckAfter is how long nothing may change before a drain counts as stuck. A scene
	// with a sabotage is expected to be stuck.
	stuckAfter         = 12 * time.Second
	stuckAfterSabotage = time.Second

	// deleteTimeout is how long the deletes at the end may take.
	deleteTimeout = 10 * time.Second
)

// Play is one performance of a scene. Its embedded Result collects figures and checks.
// Only the scene's own goroutine may use it, but for Fail, Go and Repeat. What its Stage has ends
// when the scene is over and its workers and goroutines have ended.
type Play struct {
	Result
	must.Stage

	Client   rueidis.Client
	URL      string // of the server, for workers
	Binary   string // of redis-server; empty without one
	Small    bool   // the server is miniredis: play a small version
	Name     string // random, for structures and keys
	Duration time.Duration
	Sabotage string // the protection to leave out
	Params   any    // for workers, as JSON
	Kills    int    // workers killed so far

	ctx     context.Context
	screen  *screen.Screen
	command []string
	cancel  context.CancelCauseFunc
	hear    func(line []byte)
	workers []*process
	started int
	work    sync.WaitGroup
	began   time.Time
}

// run plays a scene, ends its workers and goroutines, and deletes its keys.
func (p *Play) run(ctx context.Context, s Scene) error {
	p.OK = true
	if s.NeedsServer != "" && p.Binary == "" {
		p.Skipped = "it " + s.NeedsServer + ", and no redis-server is installed"
		return nil
	}
	p.screen.Begin()
	defer p.screen.Wipe()
	p.began = time.Now()
	playing, cancel := context.WithCancelCause(ctx)
	p.ctx, p.cancel = playing, cancel
	err := func() (err error) {
		defer must.Recover(&err)
		s.Play(playing, p)
		return nil
	}()
	if playing.Err() != nil { // its cause says more than the calls that it ended
		err = context.Cause(playing)
	}
	cancel(errors.New("the scene is over"))
	p.Dismiss(ctx)
	p.work.Wait()
	after, done := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer done()
	err = errors.Join(err, p.End(after))
	p.settle()
	return err
}

// Context ends with the scene.
func (p *Play) Context() context.Context { return p.ctx }

// Delete has the scene's keys deleted at the end. The function returns how many it deleted
// and is called until that is 0, because a killed worker may have left a command on its way.
func (p *Play) Delete(del func(context.Context) (int, error)) {
	p.Defer(func(ctx context.Context) error {
		for {
			n, err := del(ctx)
			if err != nil {
				return fmt.Errorf("keys under %s could not be deleted: %w", p.Name, err)
			}
			if n == 0 {
				return nil
			}
		}
	})
}

// Key returns a key of the scene that is deleted at the end. All are in one slot.
func (p *Play) Key(part string) string {
	key := Key(p.Name, part)
	p.Delete(func(ctx context.Context) (int, error) {
		n, err := p.Client.Do(ctx, p.Client.B().Unlink().Key(key).Build()).AsInt64()
		return int(n), err
	})
	return key
}

// Key returns a key of a scene by the scene's name.
func Key(name, part string) string { return "{" + name + "}:" + part }

// OwnServer is a server that a scene starts for itself, so that it may harm it.
type OwnServer struct {
	Addr   string
	URL    string
	Client rueidis.Client
	Proc   *redisproc.Proc // nil for miniredis
}

// OwnServer starts a server that ends with the scene: miniredis where no redis-server is
// installed.
func (p *Play) OwnServer(ctx context.Context, cfg redisproc.Config) *OwnServer {
	if p.Binary == "" {
		mini := must.Get(connect.Embedded(ctx, connect.EmbeddedConfig{Find: func() (string, error) { return "", redisproc.ErrNotFound }}))
		p.Defer(func(context.Context) error { return mini.Close() })
		return &OwnServer{Addr: strings.TrimPrefix(mini.URL, "redis://"), URL: mini.URL, Client: mini.Client}
	}
	cfg.Binary = p.Binary
	proc := must.Get(p.Server(ctx, cfg))
	return &OwnServer{Addr: proc.Addr(), URL: proc.URL(), Client: must.Get(p.Dial(ctx, proc.URL())), Proc: proc}
}

// Go runs f in a goroutine. An error ends the scene.
func (p *Play) Go(f func() error) {
	p.work.Go(func() {
		if err := f(); err != nil {
			p.cancel(err)
		}
	})
}

// Repeat calls do from n goroutines until a context ends, each time after the pause. A call
// that has begun goes on: its context is the scene's. Wait returns when all calls have
// ended. An error ends the scene.
func (p *Play) Repeat(until context.Context, n int, pause func() time.Duration, do func(context.Context) error) (wait func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for retry.Sleep(until, pause()) {
				if err := do(p.ctx); err != nil {
					p.cancel(err)
					return
				}
			}
		})
	}
	p.Go(func() error { all.Wait(); return nil })
	return all.Wait
}

// Every returns a pause for Repeat.
func Every(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// About returns a pause for Repeat, exponentially distributed as between events that know
// nothing of each other.
func About(d time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(d)) }
}

// Parallel calls do with each item from 16 goroutines.
func Parallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(items) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, items[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	must.Do(context.Cause(ctx))
}

// Show shows progress: the scene's activity, and pairs of a number and its unit.
func (p *Play) Show(doing string, pairs ...any) { p.ShowLanes(nil, doing, pairs...) }

// ShowLanes is Show with lanes that fill side by side, on a terminal.
func (p *Play) ShowLanes(lanes []screen.Lane, doing string, pairs ...any) {
	rows := [][]string{{doing}}
	for i := 0; i < len(pairs); i += 2 {
		if i%6 == 0 {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], Text("%v %v", pairs[i], pairs[i+1]))
	}
	p.screen.Show(screen.Frame{Title: p.Result.Name, Done: min(time.Since(p.began), p.Duration), Whole: p.Duration, Lanes: lanes, Rows: rows})
}

// Note reports an accident, in a line that stays. It is a [Text].
func (p *Play) Note(format string, args ...any) {
	p.screen.Say("  %4.1f s  %s", time.Since(p.began).Seconds(), Text(format, args...))
}

// Watch calls look every 25 ms until it reports that the scene can go on.
func (p *Play) Watch(ctx context.Context, look func(context.Context) (done bool)) {
	for !look(ctx) {
		if !retry.Sleep(ctx, watchInterval) {
			must.Do(context.Cause(ctx))
		}
	}
}

// WatchKilling calls look until the scene's time is over, and kills a worker now and then
// and starts another one. It kills one at least.
func (p *Play) WatchKilling(ctx context.Context, until time.Time, look func(context.Context)) {
	next := func() time.Time { return time.Now().Add(killAfter + rand.N(killBefore-killAfter)) }
	kill := next()
	p.Watch(ctx, func(ctx context.Context) bool {
		if time.Now().After(kill) {
			pid := p.KillOne()
			if p.Kills == 1 {
				p.Note("killed worker process %s with SIGKILL, and started another; more will follow", strconv.Itoa(pid))
			}
			p.Start(1)
			kill = next()
		}
		look(ctx)
		return time.Now().After(until) && p.Kills > 0
	})
}

// Drain calls left until it returns 0, or the same number for 12 seconds. Then the checks
// report the rest.
func (p *Play) Drain(ctx context.Context, left func(context.Context) int) {
	last, changed := -1, time.Now()
	limit := stuckAfter
	if p.Sabotage != "" {
		limit = stuckAfterSabotage
	}
	p.Watch(ctx, func(ctx context.Context) bool {
		n := left(ctx)
		if n != last {
			last, changed = n, time.Now()
		}
		return n == 0 || time.Since(changed) > limit
	})
}
