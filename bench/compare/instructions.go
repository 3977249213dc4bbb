package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

var ofInstructions = []*peer{millracePeer, millraceCallsPeer, streamPeer, asynqDefaultPeer}

// callSizes are how many messages a call has.
var callSizes = []int{1, 8, 100}

// stepper is a system that reads so many messages in one call, and acknowledges them in another one.
type stepper interface {
	step(ctx context.Context, n int) (acknowledge func() error, err error)
}

// rounder is a system whose workers acknowledge and take messages in one call.
type rounder interface {
	// round acknowledges the messages of the round before, takes n others and keeps them.
	round(ctx context.Context, n int) error
}

// phase is a part of the life of messages.
type phase struct {
	name string
	do   func() error
}

// instructions counts the instructions of Redis for a message. Counts vary by a few per cent, on a busy
// machine too, so those of two commits may be compared.
func instructions(ctx context.Context, s *site, scale float64) (figures, error) {
	f := figures{}
	for _, size := range callSizes {
		if size > 1 && !s.peer.batches {
			continue
		}
		if err := s.instructionsOf(ctx, size, max(10, int(300*scale)/size), f); err != nil {
			return nil, fmt.Errorf("calls of %d: %w", size, err)
		}
	}
	return f, nil
}

// instructionsOf adds the figures of calls of so many messages.
func (s *site) instructionsOf(ctx context.Context, size, calls int, f figures) error {
	j := s.base
	j.Concurrency = size
	sys, err := s.peer.connect(ctx, &j)
	if err != nil {
		return err
	}
	defer sys.close()
	phases := phasesOf(ctx, sys, j.Tenants, size, calls)
	for range 2 { // the first time connects and loads scripts, the second one counts
		sum := 0.0
		for _, p := range phases {
			if err := p.do(); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			n, err := s.instructions(ctx)
			if err != nil {
				return err
			}
			n /= float64(calls * size)
			f[fmt.Sprintf("%s_%d", p.name, size)] = n
			sum += n
		}
		f[fmt.Sprintf("sum_%d", size)] = sum
	}
	return nil
}

// phasesOf returns the steps of messages, in calls of so many: they are written, read and acknowledged. A system
// whose workers do the last two in one call has rounds, and one without calls has a worker instead.
func phasesOf(ctx context.Context, sys system, tenants, size, calls int) []phase {
	l := load{Tenants: tenants}
	write := phase{"write", func() error {
		for i := range calls {
			var messages []message
			for n := range size {
				messages = append(messages, l.message(i*size+n))
			}
			if err := sys.write(ctx, messages); err != nil {
				return err
			}
		}
		return nil
	}}
	steps, ok := sys.(stepper)
	rounds, together := sys.(rounder)
	switch {
	case ok:
	case together && size > 1:
		return []phase{write, {"work", func() error {
			for range calls {
				if err := rounds.round(ctx, size); err != nil {
					return err
				}
			}
			return nil
		}}}
	default:
		return []phase{write, {"work", func() error { return workOff(ctx, sys, calls*size) }}}
	}
	var held []func() error
	read := phase{"read", func() error {
		for range calls {
			acknowledge, err := steps.step(ctx, size)
			if err != nil {
				return err
			}
			held = append(held, acknowledge)
		}
		return nil
	}}
	return []phase{write, read, {"ack", func() (err error) {
		for _, acknowledge := range held {
			err = errors.Join(err, acknowledge())
		}
		held = nil
		return err
	}}}
}

// workOff has a worker handle n messages.
func workOff(ctx context.Context, sys system, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var handled atomic.Int64
	err := sys.work(ctx, func(string) {
		if int(handled.Add(1)) == n {
			cancel()
		}
	})
	if got := int(handled.Load()); got < n {
		return errors.Join(fmt.Errorf("%d messages were handled, want %d", got, n), err)
	}
	return nil
}
