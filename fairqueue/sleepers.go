package fairqueue

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/wake"
)

// longestSleep is for how long a process that waits sleeps at most before it
// looks again: a wake-up is best effort.
const longestSleep = time.Second

// sleepers are the readers of one process that found nothing. They share one blocking
// command and one call when it ends: two commands a second, however many they are. In the
// queue's record they count as one sleeper.
type sleepers struct {
	d *dispatcher

	mu       sync.Mutex
	waiting  []*sleeper
	running  bool
	cancel   context.CancelFunc // ends the blocking command; nil if there is none
	counted  bool               // the record counts this process
	counting bool               // a call is under way that may change that
	absent   bool               // there was no queue when last asked, in whose record it could count
}

// sleeper is a reader that waits.
type sleeper struct {
	request workRequest
	answer  chan workAnswer
	failed  chan error
	gone    bool
}

// begin says whether a call is to take this process out of the record's count, which it
// is if those who slept make it, and whether it is to put it in if nothing is there.
func (s *sleepers) begin(slept, sleeps bool) (counted, counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted = slept && s.counted
	counts = sleeps && !s.counting && (counted || !s.counted)
	s.counting = s.counting || counts
	return counted, counts
}

// end says what came of it.
func (s *sleepers) end(counted, counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if counted {
		s.counted = false
	}
	if counts {
		s.counted = true
	}
	s.counting = false
}

// exists notes whether there is a queue.
func (s *sleepers) exists(there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent = !there
}

// wait waits until the request has messages, an error, or ctx ends. The pause is until
// something is due, negative when nobody knows.
func (s *sleepers) wait(ctx context.Context, request workRequest, pause time.Duration) (workAnswer, error) {
	one := &sleeper{request: request, answer: make(chan workAnswer, 1), failed: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, one)
	if !s.running {
		s.running = true
		go s.sleep(pause) //nolint:gosec // it sleeps for others, too, whose contexts go on
	}
	s.mu.Unlock()
	select {
	case a := <-one.answer:
		return a, nil
	case err := <-one.failed:
		return workAnswer{}, err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case a := <-one.answer: // it came at the same moment
		return a, nil
	default:
	}
	one.gone = true
	s.waiting = without(s.waiting, one)
	if len(s.waiting) == 0 && s.cancel != nil {
		s.cancel()
	}
	return workAnswer{}, context.Cause(ctx)
}

func without(list []*sleeper, gone *sleeper) []*sleeper {
	for i, one := range list {
		if one == gone {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// sleep sleeps for all who wait, until nobody does.
func (s *sleepers) sleep(pause time.Duration) {
	for asked := 0; ; {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		if !s.counted && !s.absent && asked < 3 { // nobody would wake them
			waiting := s.waiting
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
			retry.Sleep(ctx, max(most, 10*time.Millisecond)) // the call tells what the trouble is
		}
		cancel()
		s.mu.Lock()
		s.cancel = nil
		if woken {
			s.counted, s.absent = false, false
			s.mu.Unlock()
			continue
		}
		waiting := s.waiting
		s.mu.Unlock()
		pause = s.ask(waiting)
	}
}

// ask makes one call for those who wait, or one for each way in which they read. It
// returns when something is due.
func (s *sleepers) ask(waiting []*sleeper) (pause time.Duration) {
	pause = -1
	for len(waiting) > 0 {
		var turn, rest []*sleeper
		var requests []workRequest
		items := 0
		for _, one := range waiting {
			if turn == nil || items+one.request.max <= page && workTogether(requests, one.request) {
				turn, requests, items = append(turn, one), append(requests, one.request), items+one.request.max
			} else {
				rest = append(rest, one)
			}
		}
		answers, err := s.d.work(context.Background(), requests, true)
		s.mu.Lock()
		for i, one := range turn {
			switch {
			case err != nil && !one.gone:
				one.failed <- err
			case err != nil:
			case one.gone && len(answers[i].messages) > 0:
				go one.request.q.handBack(context.Background(), answers[i].messages)
			case len(answers[i].messages) > 0:
				one.answer <- answers[i]
			default:
				if p := answers[i].pause; p >= 0 && (pause < 0 || p < pause) {
					pause = p
				}
				if answers[i].again {
					pause = 0
				}
				continue
			}
			s.waiting = without(s.waiting, one)
		}
		s.mu.Unlock()
		waiting = rest
	}
	return pause
}
