package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// childArgument is the first argument of a worker process; the second is its scene.
	childArgument = "demo-child"

	// dismissTimeout is how long dismissed workers may take to finish. It is short if the
	// run was cancelled.
	dismissTimeout      = 15 * time.Second
	dismissTimeoutShort = time.Second
)

// task is the line that a worker reads from its standard input.
type task struct {
	Redis    string          `json:"redis"`
	Name     string          `json:"name"`
	Number   int             `json:"number"`
	Sabotage string          `json:"sabotage,omitempty"`
	Params   json.RawMessage `json:"params"`
}

// Worker is a worker process, as its scene sees it.
type Worker struct {
	Client   rueidis.Client
	Name     string // of the structure, and of the keys around it
	Number   int    // of this worker, from 1
	Sabotage string // the protection to leave out

	params json.RawMessage
	mu     sync.Mutex
	out    *json.Encoder
}

// Params reads [Play.Params].
func (w *Worker) Params(v any) { must.Do(json.Unmarshal(w.params, v)) }

// Serve calls do from n goroutines until a context ends, each time after the pause, and
// sends a report every 50 ms and at the end, when finish has been called. It returns the
// first error.
func (w *Worker) Serve(ctx, until context.Context, n int, pause func() time.Duration, do func(context.Context) error, report func() any, finish func(context.Context)) error {
	failed := make(chan error, n)
	for range n {
		go func() {
			for retry.Sleep(until, pause()) {
				if err := do(until); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for retry.Sleep(ctx, 50*time.Millisecond) && len(failed) == 0 {
		if err := w.Report(report()); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return <-failed
	}
	finish(context.WithoutCancel(ctx))
	return w.Report(report())
}

// Report sends one line of JSON to the scene.
func (w *Worker) Report(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(v)
}

// Child does a worker's work if args, the program's arguments without its name, say that
// this process is one, and returns the exit code. Otherwise it reports false.
func Child(ctx context.Context, args []string, scenes []Scene) (code int, handled bool) {
	if len(args) != 2 || args[0] != childArgument {
		return 0, false
	}
	for _, s := range scenes {
		if s.Name == args[1] && s.Work != nil {
			if err := work(ctx, os.Stdin, os.Stdout, s.Work); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1, true
			}
			return 0, true
		}
	}
	fmt.Fprintf(os.Stderr, "there is no scene %q with workers\n", args[1])
	return 2, true
}

// work reads the task and works until in ends: that is how the parent dismisses a worker,
// and how a worker notices that its parent is gone.
func work(ctx context.Context, in io.Reader, out io.Writer, do func(context.Context, *Worker) error) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	var t task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, lines)
	}()
	client, err := dial.Redis(ctx, t.Redis)
	if err != nil {
		return err
	}
	defer client.Close()
	w := &Worker{Client: client, Name: t.Name, Number: t.Number, Sabotage: t.Sabotage, params: t.Params, out: json.NewEncoder(out)}
	err = func() (err error) {
		defer must.Recover(&err)
		return do(ctx, w)
	}()
	if ctx.Err() != nil {
		return nil // dismissed
	}
	return err
}

// Hear has f called with each report of a worker that is a T. It is called from several
// goroutines.
func Hear[T any](p *Play, f func(T)) {
	p.hear = func(line []byte) {
		var report T
		if json.Unmarshal(line, &report) == nil { // a runtime may print other lines
			f(report)
		}
	}
}

// process is a worker as its parent sees it.
type process struct {
	*must.Process

	ended atomic.Bool // it is to end
}

// Start starts n workers. A worker that ends by itself ends the scene.
func (p *Play) Start(n int) {
	for range n {
		p.started++
		params := must.Get(json.Marshal(p.Params))
		line := must.Get(json.Marshal(task{Redis: p.URL, Name: p.Name, Number: p.started, Sabotage: p.Sabotage, Params: params}))
		hear := p.hear
		if hear == nil {
			hear = func([]byte) {}
		}
		w := &process{}
		w.Process = must.Get(must.StartProcess(exec.Command(p.command[0], p.command[1:]...), hear, func(ended *must.Process) {
			if !w.ended.Load() {
				p.cancel(errors.Join(errors.New("a worker ended by itself"), ended.Err()))
			}
		}))
		p.workers = append(p.workers, w)
		_, _ = w.Stdin.Write(append(line, '\n')) // it fails if the worker has ended; then the scene ends
	}
}

// KillOne kills a random worker with SIGKILL, waits until it is gone, and returns its
// process id.
func (p *Play) KillOne() (pid int) {
	i := rand.IntN(len(p.workers))
	w := p.workers[i]
	w.ended.Store(true)
	w.Kill()
	p.Kills++
	p.workers = slices.Delete(p.workers, i, i+1)
	return w.PID()
}

// Dismiss lets all workers finish and report their results, waits for them, and kills those
// that do not end in time.
func (p *Play) Dismiss(ctx context.Context) {
	for _, w := range p.workers {
		w.ended.Store(true)
		_ = w.Stdin.Close() // the pipe is closed already if the worker has ended
	}
	timeout := dismissTimeout
	if ctx.Err() != nil {
		timeout = dismissTimeoutShort
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	for _, w := range p.workers {
		select {
		case <-w.Done:
		case <-late.C:
			late.Reset(0)
			w.Kill()
		}
	}
	p.workers = nil
}
