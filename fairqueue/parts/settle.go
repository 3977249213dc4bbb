package parts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// Ack acknowledges messages and returns how many. Errors: as of [fairqueue.Queue.Ack].
func (q *Queue) Ack(ctx context.Context, receipts ...string) (int, error) {
	return q.count(ctx, receipts, (*fairqueue.Queue).Ack)
}

// Nack gives messages back that could not be handled, and returns how many. Errors: as of
// [fairqueue.Queue.Nack].
func (q *Queue) Nack(ctx context.Context, cfg fairqueue.NackConfig, receipts ...string) (int, error) {
	return q.count(ctx, receipts, func(part *fairqueue.Queue, ctx context.Context, some ...string) (int, error) {
		return part.Nack(ctx, cfg, some...)
	})
}

// Extend keeps messages invisible for d from now on. See [fairqueue.Queue.Extend].
func (q *Queue) Extend(ctx context.Context, d time.Duration, receipts ...string) ([]bool, error) {
	return eachOf(q, "a receipt", receipts, func(part *fairqueue.Queue, some []string) ([]bool, error) { return part.Extend(ctx, d, some...) })
}

// Cancel removes messages that are not done, by their ids. See [fairqueue.Queue.Cancel].
func (q *Queue) Cancel(ctx context.Context, ids ...string) ([]fairqueue.State, error) {
	return eachOf(q, "an id", ids, func(part *fairqueue.Queue, some []string) ([]fairqueue.State, error) {
		return part.Cancel(ctx, some...)
	})
}

// count calls the parts of receipts, all at the same time, and adds their answers.
func (q *Queue) count(ctx context.Context, receipts []string,
	call func(part *fairqueue.Queue, ctx context.Context, some ...string) (int, error),
) (int, error) {
	counts, err := eachOf(q, "a receipt", receipts, func(part *fairqueue.Queue, some []string) ([]int, error) {
		n, err := call(part, ctx, some...)
		return append([]int{n}, make([]int, len(some)-1)...), err // the sum, at one of them
	})
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// eachOf calls the parts of ids or receipts, all at the same time. The answers are in the order
// of the texts; after an error some are missing, and are zero.
func eachOf[T any](q *Queue, what string, texts []string, call func(part *fairqueue.Queue, some []string) ([]T, error)) ([]T, error) {
	groups, err := q.group(what, texts)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(texts))
	errs := make([]error, len(q.parts))
	var calls sync.WaitGroup
	for p, indexes := range groups {
		calls.Go(func() {
			some := make([]string, len(indexes))
			for i, at := range indexes {
				_, some[i], _ = q.find(what, texts[at])
			}
			answers, err := call(p.queue, some)
			for i, a := range answers[:min(len(answers), len(some))] {
				all[indexes[i]] = a
			}
			errs[p.index] = err
		})
	}
	calls.Wait()
	return all, firstOf(errs)
}

// firstOf returns the first error; if there are several, all of them.
func firstOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
