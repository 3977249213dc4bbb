package ick

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/wake"
)

const (
	// DefaultLease is how long a worker keeps its Icks after an answer.
	DefaultLease = 30 * time.Second

	minLease          = time.Second
	maxLease          = time.Hour
	maxMembersOfRound = 10_000
)

// Round is what a worker has handled, and what it asks for.
type Round struct {
	// Worker names the worker, 1 to 64 bytes. Two that work at the same time must not share a name.
	Worker string

	// Done and Failed settle batches of the round before, by their tokens: members that were handled,
	// and members that failed, with the reason. Those are parked as by [Channel.Consume], with its
	// defaults. Members that neither names come again.
	Done   map[string][]string
	Failed map[string]map[string]string

	// Max is the largest number of members of each Ick. 0 takes nothing, and the worker keeps its
	// Icks for another Lease: for one that needs longer.
	Max int

	// Block is how long to wait for marks, until ctx ends. Defaults to not at all.
	Block time.Duration

	// Lease is how long the worker keeps its Icks after the call, 1 s to 1 h. It calls again before
	// that, or another worker gets its members, too. Defaults to [DefaultLease].
	Lease time.Duration

	// Leave ends the work: others get its Icks at once.
	Leave bool
}

// Exchange is one round of a worker of the channel that runs elsewhere, such as behind HTTP: it settles
// what the worker has handled, and then takes batches from the Icks that the worker serves, each with
// the token under which it is settled. A worker makes one call at a time, and is a consumer of the channel
// like any [Channel.Consume], with the same promises: each Ick has one consumer at a time.
//
// A worker that waits in a call loses its Icks five seconds after the call ends without an answer, and
// one that is at work when its Lease ends. Batches larger than 10,000 members together are made smaller.
//
// The counts are of Done. Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion],
// [millrace.ErrFull]. An Ick that does not answer is logged, and left out, if others do.
func (c *Channel) Exchange(ctx context.Context, r Round) ([]Reservation, Committed, error) {
	w := &round{Channel: c, Round: r}
	if err := w.check(); err != nil {
		return nil, w.done, err
	}
	if r.Leave {
		err := w.settle(ctx)
		if err == nil {
			_, err = c.tidy(ctx, r.Worker)
		}
		return nil, w.done, err
	}
	batches, err := w.rounds(ctx)
	return batches, w.done, err
}

// round is one call of Exchange.
type round struct {
	*Channel
	Round

	ended map[int][]ended // what is to be settled, by the index of its Ick
	over  []handover      // Icks to hand over with the next heartbeat
	pause time.Duration   // until a mark is due; negative if unknown

	mu   sync.Mutex
	done Committed
}

// ended is a batch to settle.
type ended struct {
	token  string
	done   []string
	failed map[string]string
}

func (w *round) check() error {
	w.Lease = cmp.Or(w.Lease, DefaultLease)
	bad := millrace.ErrBadArgument
	switch {
	case w.Worker == "" || len(w.Worker) > maxConsumer:
		return bad.Errorf("the name of a worker has 1 to %d bytes, not %d", maxConsumer, len(w.Worker))
	case w.Max < 0 || w.Block < 0:
		return bad.Errorf("Max and Block cannot be negative")
	case w.Lease < minLease || w.Lease > maxLease:
		return bad.Errorf("a worker keeps its Icks for %s to %s, not %s", minLease, maxLease, w.Lease)
	}
	w.ended = make(map[int][]ended)
	for _, token := range slices.Sorted(maps.Keys(w.Done)) {
		if err := w.end(token, w.Done[token], w.Failed[token]); err != nil {
			return err
		}
	}
	for _, token := range slices.Sorted(maps.Keys(w.Failed)) {
		if _, known := w.Done[token]; !known {
			if err := w.end(token, nil, w.Failed[token]); err != nil {
				return err
			}
		}
	}
	return nil
}

// end adds a batch to settle. Its token is that of the Ick behind its index.
func (w *round) end(token string, done []string, failed map[string]string) error {
	at, own, _ := strings.Cut(token, "/")
	index, err := strconv.Atoi(at)
	if err != nil || index < 0 || index >= maxSize || !isToken.MatchString(own) {
		return millrace.ErrBadArgument.Errorf("invalid token of a batch of a channel: %.60q", token)
	}
	w.ended[index] = append(w.ended[index], ended{own, done, failed})
	return nil
}

// rounds settles, and takes until there is something, or until the time is over.
func (w *round) rounds(ctx context.Context) ([]Reservation, error) {
	until := time.Now().Add(w.Block)
	for ttl := w.Lease; ; {
		mine, surplus, err := w.attend(ctx, w.Worker, ttl, w.over)
		if err != nil {
			return nil, err
		}
		w.over = nil
		if w.Max == 0 {
			return nil, w.settle(ctx)
		}
		for _, index := range surplus { // nothing is in hand
			w.over = append(w.over, handover{index: index})
		}
		mine = slices.DeleteFunc(mine, func(index int) bool { return slices.Contains(surplus, index) })
		batches, err := w.take(ctx, mine)
		if err != nil {
			return nil, err
		}
		left := time.Until(until)
		if len(batches) > 0 || left <= 0 {
			if ttl != w.Lease || len(w.over) > 0 {
				_, _, err = w.attend(ctx, w.Worker, w.Lease, w.over)
			}
			return batches, err
		}
		most := max(pollEvery, time.Duration(len(mine))*perIdleIck)
		if len(w.over) > 0 {
			most = 0 // others wait for them
		}
		if err := w.wait(ctx, mine, min(left, most)); err != nil {
			return nil, err
		}
		ttl = most + memberTTL
	}
}

// settle settles, and takes nothing.
func (w *round) settle(ctx context.Context) error {
	_, err := w.take(ctx, nil)
	return err
}

// take settles what is to be settled, and takes batches from Icks, all at the same time. It retires those that have
// nothing and are no longer used.
func (w *round) take(ctx context.Context, from []int) (batches []Reservation, err error) {
	all := slices.Collect(maps.Keys(w.ended))
	for _, index := range from {
		if w.ended[index] == nil {
			all = append(all, index)
		}
	}
	most := w.Max
	if len(from) > 0 {
		most = min(most, max(1, maxMembersOfRound/len(from)))
	}
	w.pause = -1
	var silent []error
	var calls sync.WaitGroup
	for _, index := range all {
		calls.Go(func() {
			n := 0
			if slices.Contains(from, index) {
				n = most
			}
			r, settled, failed := w.exchange(ctx, index, n)
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case failed != nil && (!settled || closed(failed)):
				err = failed
			case failed != nil:
				silent = append(silent, failed)
			case len(r.Entries) > 0:
				r.Token = strconv.Itoa(index) + "/" + r.Token
				batches = append(batches, r)
			case r.pause >= 0 && (w.pause < 0 || r.pause < w.pause):
				w.pause = r.pause
			}
		})
	}
	calls.Wait()
	if err != nil {
		return nil, err
	}
	w.ended = nil
	if len(silent) > 0 && len(silent) == len(from) {
		return nil, silent[0]
	}
	for _, failed := range silent {
		w.cfg.Ick.Logger.WarnContext(ctx, "an Ick of a channel is left out", "error", failed)
	}
	slices.SortFunc(batches, func(a, b Reservation) int { return cmp.Compare(a.Entries[0].Score, b.Entries[0].Score) })
	return batches, nil
}

// exchange settles the batches of an Ick and takes n members. It reports whether all are settled.
func (w *round) exchange(ctx context.Context, index, n int) (r Reservation, settled bool, err error) {
	k, err := w.ick(index)
	if err != nil {
		return r, false, err
	}
	cfg, err := ConsumeConfig{}.withDefaults()
	if err != nil {
		return r, false, err
	}
	batches := w.ended[index]
	if len(batches) == 0 {
		batches = []ended{{}}
	}
	for i, e := range batches {
		take := 0
		if i == len(batches)-1 {
			take = n
		}
		if err := k.parkAll(ctx, e.token, cfg, e.failed); err != nil && !errors.Is(err, errRetired) {
			return r, false, err
		}
		var done Committed
		r, done, err = k.Exchange(ctx, e.token, e.done, take)
		if err != nil && !errors.Is(err, errRetired) { // a retired one is empty
			return r, e.token == "", err
		}
		w.mu.Lock()
		w.done.Committed += done.Committed
		w.done.Kept += done.Kept
		w.mu.Unlock()
	}
	if n == 0 || len(r.Entries) > 0 {
		return r, true, nil
	}
	epoch, err := w.retire(ctx, index, k)
	if epoch != 0 {
		w.mu.Lock()
		w.over = append(w.over, handover{index, epoch})
		w.mu.Unlock()
	}
	return r, true, err
}

// wait sleeps until a producer wakes one of the Icks, a mark is due, or the time is over.
func (w *round) wait(ctx context.Context, icks []int, most time.Duration) error {
	if w.pause >= 0 {
		most = min(most, w.pause)
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var calls sync.WaitGroup
	for _, index := range icks {
		calls.Go(func() {
			if _, err := wake.Wait(waiting, w.run.Client, key(w.name+"/"+strconv.Itoa(index), keyWake), most); err == nil {
				cancel()
			}
		})
	}
	<-waiting.Done()
	calls.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
