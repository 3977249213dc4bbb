package fairqueue

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
)

// Exchange settles deliveries and then reads as [Queue.Read] does, in one call to Redis unless they are many. It is for
// workers in other processes that make a call for each of their rounds, such as those over HTTP.
//
// Ended has the results of the handlers, by receipt, up to 1,000 of them. They decide about the messages as in
// [Queue.Consume]: nil acknowledges one; see [RetryAfter], [NoRetry] and [Throttle]; after another error it comes again
// after [Backoff]. Stale are the receipts that are.
//
// Deliveries are settled also if there is nothing to read, which is [ErrEmpty] or [ErrPaused]. With a negative Max it reads
// nothing, and its Worker still counts as there: for one whose handlers are all busy. With [ReadConfig].Leave it reads nothing,
// and the Worker counts no longer.
// After another error some deliveries may be settled: settle all again, and those that were settled are stale then.
// Errors: as of [Queue.Read] and [Queue.Nack].
func (q *Queue) Exchange(ctx context.Context, ended map[string]error, cfg ReadConfig) (messages []Message, stale []string, err error) {
	settlesOnly := cfg.Max < 0 || cfg.Leave
	cfg.Max = max(cfg.Max, 0)
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	if len(ended) > maxRead {
		return nil, nil, millrace.ErrBadArgument.Errorf("an exchange settles at most %d deliveries, not %d", maxRead, len(ended))
	}
	texts := slices.Sorted(maps.Keys(ended))
	receipts, err := readReceipts(texts)
	if err != nil {
		return nil, nil, err
	}
	settle := make([]settlement, len(receipts))
	for i, r := range receipts {
		settle[i] = settlement{receipt: r, verb: "a"}
		if failed := ended[texts[i]]; failed != nil {
			settle[i].verb, settle[i].arg = failedAs(failed, "b", firstBackoff(), failed.Error())
		}
	}
	var verdicts []int
	request := workRequest{q: q, settle: settle, max: min(cfg.Max, callBudget/q.readCost())}
	if request.cost() > callBudget || settlesOnly || reqid.Seeded(ctx) { // a repeat must find the answer
		if verdicts, err = q.settleAll(ctx, settle); err != nil {
			return nil, nil, err
		}
		settle = nil
	}
	switch {
	case cfg.Leave:
		return nil, staleOf(texts, verdicts), q.end(ctx, cfg)
	case settlesOnly:
		_, leave := q.enter(cfg)
		leave()
		return nil, staleOf(texts, verdicts), nil
	}
	err = q.observe(ctx, "work", func(ctx context.Context) error {
		var some []int
		messages, some, err = q.read(ctx, cfg, settle)
		verdicts = append(verdicts, some...)
		return err
	})
	q.ended(ctx, messages, err)
	return messages, staleOf(texts, verdicts), err
}

// staleOf returns the receipts that are stale.
func staleOf(texts []string, verdicts []int) (stale []string) {
	for i, verdict := range verdicts {
		if verdict == 0 {
			stale = append(stale, texts[i])
		}
	}
	return stale
}
