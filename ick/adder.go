package ick

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/script"
)

// most is how many marks of one caller go along with those of others: they fit into a
// call, whatever their sizes.
const most = 100

// adderTimeout bounds a shared call, which no single caller's context may end.
const adderTimeout = 10 * time.Second

// Adder folds the adds that goroutines of one process make at the same time into
// shared script calls. While a call is under way, the marks that arrive wait for the
// next, at most 1,000 and 1 MiB together; so an add waits for at most one call before
// its own, and a lonely one waits for none. Every caller still gets its own answer, as
// if it had called alone. Safe for concurrent use.
type Adder struct {
	ick  *Ick
	adds *batch.Batcher[[]mark, string]

	mu     sync.Mutex
	closed bool
	adding sync.WaitGroup
}

// Adder returns an adder for the Ick. Close it when done.
func (k *Ick) Adder() *Adder {
	return &Adder{ick: k, adds: batch.New(batch.Config[[]mark, string]{
		Call:     k.addTogether,
		Size:     sizeOf,
		MaxItems: chunk,
		MaxBytes: script.MaxBytes,
	})}
}

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
	a.adding.Wait()
	a.adds.Wait()
}

func (a *Adder) add(ctx context.Context, marks []mark) (Added, error) {
	if err := ctx.Err(); err != nil {
		return Added{}, err
	}
	if err := a.ick.cfg.check(marks...); err != nil {
		return Added{}, err
	}
	if !a.begin() {
		return Added{}, ErrClosed
	}
	defer a.adding.Done()
	outcomes, err := a.adds.Do(ctx, marks)
	if err != nil {
		return Added{}, err
	}
	return tally(outcomes), nil
}

// begin counts one who adds, unless the adder is closed.
func (a *Adder) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.adding.Add(1)
	}
	return !a.closed
}

func sizeOf(marks []mark) (items, bytes int) {
	for _, m := range marks {
		bytes += m.size()
	}
	return len(marks), bytes
}

// addTogether adds the marks of several callers, and returns each one's outcomes.
func (k *Ick) addTogether(ctx context.Context, callers [][]mark) ([]string, error) {
	ctx, cancel := script.Within(script.Detached(ctx), adderTimeout)
	defer cancel()
	var all []mark
	for _, marks := range callers {
		all = append(all, marks...)
	}
	outcomes, err := k.send(ctx, "0", all...)
	if err != nil {
		return nil, err
	}
	each := make([]string, len(callers))
	for i, marks := range callers {
		each[i], outcomes = outcomes[:len(marks)], outcomes[len(marks):]
	}
	return each, nil
}
