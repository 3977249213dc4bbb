package parts

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/shuffleshard"
)

// Write writes one message, to the part of its tenant in which the fewest messages wait, and
// returns its id. It asks one part only. Parts that did not answer lately are avoided.
//
// A draft with a DedupeID always goes to the same part of its tenant, and one with a Source to
// the same part of all, because only that part knows the earlier writes. While that part is
// down, they fail.
//
// A part that refuses the message, because its server is full ([millrace.ErrFull]) or because the
// tenant is ([fairqueue.ErrTenantFull]), certainly wrote nothing. Then Write tries the tenant's
// next part.
//
// A draft with a Batch goes to the part of the batch, and has no Source: see [Queue.CreateBatch].
//
// Errors: those of [fairqueue.Queue.Write]. If the part does not answer within
// [Config.Timeout], the error is [millrace.ErrUncertain]: the message may have been written,
// and Write does not try another part. The next Write does.
func (q *Queue) Write(ctx context.Context, d fairqueue.Draft) (string, error) {
	written, err := q.WriteBatch(ctx, d)
	if len(written) == 0 || written[0].ID == "" {
		return "", err
	}
	return written[0].ID, err
}

// WriteBatch writes several messages, and returns them in the order of the drafts. It asks the
// parts that it needs at the same time. With an error, the messages that were written have an
// ID, and the others have none.
//
// Errors: as of [Queue.Write], joined if there are several.
func (q *Queue) WriteBatch(ctx context.Context, drafts ...fairqueue.Draft) ([]fairqueue.Written, error) {
	all := make([]fairqueue.Written, len(drafts))
	refused := make([][]*part, len(drafts)) // the parts that refused the draft
	places := map[*part][]int{}             // indexes of drafts
	drafts = slices.Clone(drafts)
	for i, d := range drafts {
		p := q.choose(d, nil)
		if d.Batch != "" {
			var err error
			if p, drafts[i].Batch, err = q.find("the id of a batch", d.Batch); err != nil {
				return nil, err
			}
			if d.Source != "" {
				return nil, millrace.ErrBadArgument.Errorf("a draft has a batch and a source, and they may lie in two parts").
					WithHint("Leave the batch out, or give the draft a dedupe id instead of a source.")
			}
		}
		places[p] = append(places[p], i)
	}
	var failed []error
	for len(places) > 0 {
		next := map[*part][]int{}
		for p, err := range q.writeAll(ctx, places, drafts, all) {
			if !errors.Is(err, millrace.ErrFull) && !errors.Is(err, fairqueue.ErrTenantFull) {
				failed = append(failed, err)
				continue
			}
			stays := false
			for _, i := range places[p] {
				if all[i].ID != "" {
					continue
				}
				refused[i] = append(refused[i], p)
				if other := q.choose(drafts[i], refused[i]); other != nil {
					next[other] = append(next[other], i)
				} else {
					stays = true
				}
			}
			if stays {
				failed = append(failed, err)
			}
		}
		places = next
	}
	return all, firstOf(failed)
}

// writeAll writes drafts to their parts, all at the same time, and returns the errors.
func (q *Queue) writeAll(ctx context.Context, places map[*part][]int, drafts []fairqueue.Draft, all []fairqueue.Written) map[*part]error {
	errs := make([]error, len(q.parts))
	var calls sync.WaitGroup
	for p, indexes := range places {
		do := func() {
			some := make([]fairqueue.Draft, len(indexes))
			for i, at := range indexes {
				some[i] = drafts[at]
			}
			written, err := p.write(ctx, some)
			for i, w := range written {
				if w.ID != "" {
					w.ID = p.mark(w.ID)
				}
				all[indexes[i]] = w
			}
			errs[p.index] = err
		}
		if len(places) == 1 {
			do()
		} else {
			calls.Go(do)
		}
	}
	calls.Wait()
	failed := map[*part]error{}
	for i, err := range errs {
		if err != nil {
			failed[q.parts[i]] = err
		}
	}
	return failed
}

// choose returns the part for a draft, or nil if all that may take it refused it.
func (q *Queue) choose(d fairqueue.Draft, refused []*part) *part {
	unless := func(p *part) *part {
		if slices.Contains(refused, p) {
			return nil
		}
		return p
	}
	if d.Batch != "" {
		return nil // no other part has the batch
	}
	if d.Source != "" {
		return unless(q.ranked("source " + d.Source)[0])
	}
	list := q.ranked(d.Tenant)
	if d.DedupeID != "" {
		return unless(list[shuffleshard.Get(len(list), 1, d.DedupeID)[0]])
	}
	var best *part
	bestState, fewest := open, 0
	for _, p := range list {
		if unless(p) == nil {
			continue
		}
		now, waiting := p.look()
		if best == nil || now < bestState || now == bestState && waiting < fewest {
			best, bestState, fewest = p, now, waiting
		}
	}
	if best != nil {
		best.added() // the next draft sees it
	}
	return best
}

// write writes drafts to the part.
func (p *part) write(ctx context.Context, drafts []fairqueue.Draft) ([]fairqueue.Written, error) {
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	written, err := p.queue.WriteBatch(within, drafts...)
	return written, p.uncertain(ctx, within, err)
}

// uncertain notes the error of a write, nil for none, and returns it, or what it means if the part did not answer in time.
func (p *part) uncertain(ctx, within context.Context, err error) error {
	if within.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = millrace.ErrUncertain.Errorf("part %d of the queue did not answer within %s", p.index, p.timeout).Wrap(err)
	}
	if ctx.Err() == nil { // else the caller was too quick to say
		p.note(err)
	}
	return err
}
