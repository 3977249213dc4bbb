package ick

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/script"
)

// callsAtOnce is how many shared calls are under way at once: while the server
// works on one, the next fills up and travels.
const callsAtOnce = 2

// most is how many marks of one caller go along with those of others: they fit into a
// call, whatever their sizes.
const most = 100

// adderPatience bounds a shared call, which no single caller's context may end.
const adderPatience = 10 * time.Second

// Adder folds the adds that goroutines of one process make at the same time into
// shared script calls. While two calls are under way, the marks that arrive wait
// for the next, at most 1,000 and 1 MiB together; so an add waits for at most one call
// before its own, and a lonely one waits for none. Every caller still gets its
// own answer, as if it had called alone. Safe for concurrent use.
type Adder struct {
	ick *Ick

	mu      sync.Mutex
	queue   []*folding // not sent yet; the last one is open for more
	sending int
	closed  bool
	idle    sync.WaitGroup
}

// folding is one shared call.
type folding struct {
	marks []mark
	bytes int
	done  chan struct{}

	// Written before done is closed.
	outcomes string
	err      error
}

// Adder returns an adder for the Ick. Close it when done.
func (k *Ick) Adder() *Adder { return &Adder{ick: k} }

// Add is [Ick.Add] through a shared call. More than 100 marks go alone. A call
// whose context ends returns at once; its marks may be added all the same.
func (a *Adder) Add(ctx context.Context, marks ...Entry) (Added, error) {
	if len(marks) > most {
		return a.ick.Add(ctx, marks...)
	}
	return a.add(ctx, marked(marks))
}

// AddNow is [Ick.AddNow] through a shared call, like Add.
func (a *Adder) AddNow(ctx context.Context, members ...string) (Added, error) {
	if len(members) > most {
		return a.ick.AddNow(ctx, members...)
	}
	return a.add(ctx, markedNow(members))
}

// Close waits for the marks under way. Later adds fail with [ErrClosed].
func (a *Adder) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.idle.Wait()
}

func (a *Adder) add(ctx context.Context, marks []mark) (Added, error) {
	if err := ctx.Err(); err != nil {
		return Added{}, err
	}
	if err := a.ick.cfg.check(marks...); err != nil {
		return Added{}, err
	}
	f, first, err := a.enqueue(marks)
	if err != nil {
		return Added{}, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return Added{}, context.Cause(ctx)
	}
	if f.err != nil {
		return Added{}, f.err
	}
	return tally(f.outcomes[first : first+len(marks)]), nil
}

// enqueue puts marks into the open call and returns it with the place of the
// first of them.
func (a *Adder) enqueue(marks []mark) (*folding, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, 0, ErrClosed
	}
	bytes := 0
	for _, m := range marks {
		bytes += m.size()
	}
	if last := len(a.queue) - 1; last < 0 || len(a.queue[last].marks)+len(marks) > chunk || a.queue[last].bytes+bytes > script.MaxBytes {
		a.queue = append(a.queue, &folding{done: make(chan struct{})})
	}
	f := a.queue[len(a.queue)-1]
	first := len(f.marks)
	f.marks, f.bytes = append(f.marks, marks...), f.bytes+bytes
	if a.sending < callsAtOnce {
		a.sending++
		a.idle.Go(a.send)
	}
	return f, first, nil
}

// send makes the queued calls, one after the other, until there are none.
func (a *Adder) send() {
	for {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.sending--
			a.mu.Unlock()
			return
		}
		f := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()

		f.send(a.ick)
	}
}

func (f *folding) send(k *Ick) {
	defer close(f.done)
	ctx, cancel := script.Within(context.Background(), adderPatience)
	defer cancel()
	f.outcomes, f.err = k.send(ctx, "0", f.marks...)
}
