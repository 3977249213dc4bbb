package survey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// round is the reads of one survey.
type round struct {
	questions []question
	mu        sync.Mutex
	troubles  []Trouble
}

type question struct {
	kind Kind
	name string
	ask  func(ctx context.Context) error
}

// ask adds a read for each structure of a kind, and returns a function with the results
// after run.
func ask[S any](r *round, kind Kind, known []string, stats func(ctx context.Context, name string) (S, error)) (answers func() []S) {
	answered := make([]*S, len(known))
	for i, name := range known {
		r.questions = append(r.questions, question{kind, name, func(ctx context.Context) error {
			s, err := script.Prompt(ctx, func(ctx context.Context) (S, error) { return stats(ctx, name) })
			if err == nil {
				answered[i] = &s
			}
			return err
		}})
	}
	return func() []S {
		var all []S
		for _, s := range answered {
			if s != nil {
				all = append(all, *s)
			}
		}
		return all
	}
}

// run reads, a few structures at the same time. Structures that failed the last time come last,
// so that they delay no others.
func (r *round) run(ctx context.Context, last *View) {
	ctx, cancel := context.WithTimeoutCause(ctx, surveyTimeout, errSilent)
	defer cancel()
	type name struct {
		kind Kind
		name string
	}
	failed := map[name]int{}
	for _, t := range last.Troubles {
		failed[name{t.Kind, t.Name}] = 1
	}
	slices.SortStableFunc(r.questions, func(a, b question) int {
		return failed[name{a.kind, a.name}] - failed[name{b.kind, b.name}]
	})
	next := make(chan question)
	var asking sync.WaitGroup
	for range parallel {
		asking.Go(func() {
			for q := range next {
				r.put(ctx, q)
			}
		})
	}
	for _, q := range r.questions {
		next <- q
	}
	close(next)
	asking.Wait()
	slices.SortFunc(r.troubles, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// put does one read. A deleted structure is no trouble.
func (r *round) put(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errSilent)
	defer cancel()
	err := context.Cause(ctx) // the round may have no time left
	if err == nil {
		err = q.ask(ctx)
	}
	if err == nil || errors.Is(err, errGone) || errors.Is(err, millrace.ErrNotFound) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles = append(r.troubles, Trouble{Kind: q.kind, Name: q.name, Err: err})
}
