package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/wake"
)

// longestSleep bounds a sleep, because a wake-up is best effort.
const longestSleep = time.Second

// sleepers are the readers of one process that found nothing. They share one blocking command
// and one call after it: two commands a second, however many readers wait. The queue's record
// counts the process as one sleeper, to which a write sends a wake-up token.
type sleepers struct {
	d *dispatcher

	mu       sync.Mutex
	waiting  []*sleeper
	running  bool
	cancel   context.CancelFunc // ends the blocking command; nil if there is none
	counted  bool               // the record counts this process
	counting bool               // a call is in flight that may change counted
	absent   bool               // the queue did not exist when last asked
}

// sleeper is a reader that waits.
type sleeper struct {
	request workRequest
	answer  chan workAnswer
	failed  chan error
	gone    bool
}

// begin decides what a call does to the record's count: whether this process leaves it, as
// it does if the call is the sleepers' own, and whether it enters it if there is nothing to
// read.
func (s *sleepers) begin(slept, sleeps bool) (leaves, enters bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaves = slept && s.counted
	enters = sleeps && !s.counting && (leaves || !s.counted)
	s.counting = s.counting || enters
	return leaves, enters
}

// end notes what the call did.
func (s *sleepers) end(left, entered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = entered || s.counted && !left
	s.counting = false
}

func (s *sleepers) setAbsent(absent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent = absent
}

// wait waits until the request has messages, an error, or ctx ends. The pause is the time
// until a message becomes due, negative if unknown.
func (s *sleepers) wait(ctx context.Context, request workRequest, pause time.Duration) (workAnswer, error) {
	self := &sleeper{request: request, answer: make(chan workAnswer, 1), failed: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, self)
	if !s.running {
		s.running = true
		go s.sleep(pause) //nolint:gosec // it sleeps for others, too, whose contexts go on
	}
	s.mu.Unlock()
	select {
	case a := <-self.answer:
		return a, nil
	case err := <-self.failed:
		return workAnswer{}, err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case a := <-self.answer: // it came at the same moment
		return a, nil
	default:
	}
	self.gone = true
	s.remove(self)
	if len(s.waiting) == 0 && s.cancel != nil {
		s.cancel()
	}
	return workAnswer{}, context.Cause(ctx)
}

// remove takes a sleeper off the list, of which others may hold a copy. Call it with mu held.
func (s *sleepers) remove(gone *sleeper) {
	s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), func(other *sleeper) bool { return other == gone })
}

// sleep sleeps for all who wait, until nobody does.
func (s *sleepers) sleep(pause time.Duration) {
	for asked := 0; ; {
		s.mu.Lock()
		waiting := s.waiting
		if len(waiting) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		if !s.counted && !s.absent && asked < 3 { // no write would wake them
			s.mu.Unlock()
			pause = s.ask(waiting)
			asked++
			continue
		}
		asked = 0
		most := longestSleep
		if pause >= 0 {
			most = min(most, pause)
		}
		ctx, cancel := context.WithCancel(context.Background())
		s.cancel = cancel
		s.mu.Unlock()

		woken, err := wake.Wait(ctx, s.d.run.Client, baseKey(s.d.name)+":wake", most)
		if err != nil {
			retry.Sleep(ctx, max(most, 10*time.Millisecond)) // the next call returns the error
		}
		cancel()
		s.mu.Lock()
		s.cancel = nil
		if woken {
			s.counted, s.absent = false, false
		}
		waiting = s.waiting
		s.mu.Unlock()
		if !woken {
			pause = s.ask(waiting)
		}
	}
}

// ask makes one call for those who wait, or one for each way in which they read. It returns
// the time until a message becomes due.
func (s *sleepers) ask(waiting []*sleeper) (pause time.Duration) {
	pause = -1
	for len(waiting) > 0 {
		var turn, rest []*sleeper
		var requests []workRequest
		cost := 0
		for _, w := range waiting {
			if turn == nil || cost+w.request.cost() <= callBudget && workTogether(requests, w.request) {
				turn, requests, cost = append(turn, w), append(requests, w.request), cost+w.request.cost()
			} else {
				rest = append(rest, w)
			}
		}
		answers, err := s.d.work(context.Background(), requests, true)
		s.mu.Lock()
		for i, w := range turn {
			switch {
			case err != nil && !w.gone:
				w.failed <- err
			case err != nil:
			case w.gone && len(answers[i].messages) > 0:
				go w.request.q.handBack(context.Background(), answers[i].messages)
			case len(answers[i].messages) > 0:
				w.answer <- answers[i]
			default:
				if p := answers[i].pause; p >= 0 && (pause < 0 || p < pause) {
					pause = p
				}
				if answers[i].again {
					pause = 0
				}
				continue
			}
			s.remove(w)
		}
		s.mu.Unlock()
		waiting = rest
	}
	return pause
}
