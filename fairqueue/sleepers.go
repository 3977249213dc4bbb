package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/wake"
)

const (
	// longestSleep bounds a sleep, because a wake-up is best effort.
	longestSleep = time.Second

	// shortestSleep is the time between two calls while other readers take all due messages.
	shortestSleep = time.Millisecond
)

// sleepers are the readers of one process that found nothing. They share one blocking command and one call when
// something is due, at least each second: two commands a second while nothing is, however many readers wait. The queue's
// record counts the process as one sleeper, to which a write sends a wake-up token.
type sleepers struct {
	d *dispatcher

	mu       sync.Mutex
	waiting  []*sleeper
	running  bool
	cancel   context.CancelFunc // ends the blocking command; nil if there is none
	counted  bool               // the record counts this process
	counting bool               // a call is in flight that may change counted
	absent   bool               // the queue did not exist when last asked
	due      time.Time          // when to ask next
	sooner   chan struct{}      // due may be earlier than before
}

// sleeper is a reader that waits.
type sleeper struct {
	request workRequest
	answer  chan workAnswer
	failed  chan error
	gone    bool
	late    lateAcks
}

// begin decides how a call changes the record's count: whether this process leaves it, as
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

// end notes the result of the call.
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
// until a message becomes due, negative if unknown. Late may be nil.
func (s *sleepers) wait(ctx context.Context, request workRequest, pause time.Duration, late lateAcks) (workAnswer, error) {
	self := &sleeper{request: request, answer: make(chan workAnswer, 1), failed: make(chan error, 1), late: late}
	s.mu.Lock()
	s.waiting = append(s.waiting, self)
	if !s.running {
		s.due = time.Now().Add(longestSleep)
	}
	s.askBy(pause)
	if !s.running {
		s.running = true
		go s.sleep() //nolint:gosec // it sleeps for others, too, whose contexts go on
	} else {
		select {
		case s.sooner <- struct{}{}:
		default:
		}
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
	if len(s.waiting) == 0 {
		s.stopBlocking()
	}
	return workAnswer{}, context.Cause(ctx)
}

// remove takes a sleeper off the list, of which others may hold a copy. Call it with mu held.
func (s *sleepers) remove(gone *sleeper) {
	s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), func(other *sleeper) bool { return other == gone })
}

// sleep sleeps for all goroutines that wait, until none does.
func (s *sleepers) sleep() {
	var tokens <-chan token // of the blocking command; nil if there is none
	for asked := 0; ; {
		s.mu.Lock()
		waiting := s.waiting
		if len(waiting) == 0 {
			s.stopBlocking()
			s.running = false
			s.mu.Unlock()
			return
		}
		if !s.counted && !s.absent && asked < 3 { // no write would wake them
			s.mu.Unlock()
			s.ask(waiting)
			asked++
			continue
		}
		asked = 0
		if tokens == nil {
			tokens = s.block()
		}
		rest := max(time.Until(s.due), shortestSleep)
		s.mu.Unlock()

		timer := time.NewTimer(rest)
		select {
		case t := <-tokens:
			tokens = nil
			s.unblocked(t)
			if t.err != nil {
				retry.Sleep(context.Background(), max(rest, 10*time.Millisecond)) // the next call returns the error
			}
			if t.err != nil || t.early {
				s.askAll()
			}
		case <-s.sooner:
		case <-timer.C: // the blocking command goes on
			s.askAll()
		}
		timer.Stop()
	}
}

// token is the result of a blocking command.
type token struct {
	woken, early bool // early: before its timeout, and without a token
	err          error
}

// block starts the blocking command. It only brings tokens: its timeout, at which the server looks every tenth of a second
// or less often, is too coarse for messages that become due. Call it with mu held.
func (s *sleepers) block() <-chan token {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	tokens, began := make(chan token, 1), time.Now()
	go func() {
		woken, err := wake.Wait(ctx, s.d.run.Client, baseKey(s.d.name)+":wake", longestSleep)
		if ctx.Err() != nil {
			err = nil
		}
		tokens <- token{woken, !woken && time.Since(began) < longestSleep, err}
	}()
	return tokens
}

// stopBlocking ends the blocking command, if there is one. Call it with mu held.
func (s *sleepers) stopBlocking() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
}

// unblocked notes that the blocking command has ended.
func (s *sleepers) unblocked(t token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopBlocking()
	if t.woken {
		s.counted, s.absent = false, false
	}
}

// askBy makes the next call come after a pause at the latest, if it is not negative. Call it with mu held.
func (s *sleepers) askBy(pause time.Duration) {
	if then := time.Now().Add(pause); pause >= 0 && then.Before(s.due) {
		s.due = then
	}
}

// askAll asks for all readers that wait.
func (s *sleepers) askAll() {
	s.mu.Lock()
	waiting := s.waiting
	s.mu.Unlock()
	s.ask(waiting)
}

// ask makes one call for readers that wait, or one for each way in which they read.
func (s *sleepers) ask(waiting []*sleeper) {
	s.mu.Lock()
	s.due = time.Now().Add(longestSleep)
	s.mu.Unlock()
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
		settled := addLate(turn, requests, callBudget-cost)
		answers, err := s.d.work(context.Background(), requests, true)
		for i, done := range settled {
			switch {
			case done == nil:
			case err != nil:
				done(nil, err)
			default:
				done(answers[i].verdicts, answers[i].err)
			}
		}
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
				s.askBy(answers[i].pause)
				if answers[i].again {
					s.askBy(0)
				}
				continue
			}
			s.remove(w)
		}
		s.mu.Unlock()
		waiting = rest
	}
}
