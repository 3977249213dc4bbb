package ick

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/batch"
	"github.com/millrace/millrace/internal/script"
)

const (
	// sharing is how many marks of one caller go along with those of others at most: they
	// fit into a call, whatever their sizes.
	sharing = 100

	// sharedTimeout bounds a shared call, which no single caller's context may end.
	sharedTimeout = 10 * time.Second
)

// shareAdds makes what puts the adds of goroutines together.
func (k *Ick) shareAdds() {
	k.shared = script.Runner{Client: k.run.Client, Scripts: library, Errors: named, Hooks: k.repeats()}
	k.adds = batch.New(batch.Config[[]mark, string]{
		Call:     k.addTogether,
		Size:     sizeOf,
		MaxItems: chunk,
		MaxBytes: script.MaxBytes,
	})
}

// addShared adds marks in a call that others may share, if one is under way already. The
// hooks are told about the caller's own call, as if it were alone.
func (k *Ick) addShared(ctx context.Context, marks []mark) (added Added, err error) {
	var outcomes string
	if k.adds.Alone(func() { outcomes, err = k.send(ctx, &k.run, marks) }) {
		return tally(outcomes), err
	}
	ctx, ended := script.Watch(ctx, k.cfg.Hooks, millrace.Call{Script: "ick.add", Key: k.name, Try: 1})
	defer func() { ended(err) }()
	outcomes, err = k.adds.Do(ctx, marks)
	return tally(outcomes), err
}

func sizeOf(marks []mark) (items, bytes int) {
	for _, m := range marks {
		bytes += m.size()
	}
	return len(marks), bytes
}

// addTogether adds the marks of several callers, and returns each one's outcomes.
func (k *Ick) addTogether(ctx context.Context, callers [][]mark) ([]string, error) {
	ctx, cancel := script.Within(script.Detached(ctx), sharedTimeout)
	defer cancel()
	all := callers[0]
	if len(callers) > 1 {
		all = slices.Concat(callers...)
	}
	outcomes, err := k.send(ctx, &k.shared, all)
	if err != nil {
		return nil, err
	}
	each := make([]string, len(callers))
	for i, marks := range callers {
		each[i], outcomes = outcomes[:len(marks)], outcomes[len(marks):]
	}
	return each, nil
}

// repeats returns a hook that tells the Ick's own about a shared call that is sent again,
// once for all who share it.
func (k *Ick) repeats() []millrace.Hook {
	var watchers []millrace.Hook
	for _, hook := range k.cfg.Hooks {
		if h, ok := hook.(millrace.CallHook); ok {
			watchers = append(watchers, repeatHook{h})
		}
	}
	return watchers
}

// repeatHook passes on what it is told about calls that are sent again.
type repeatHook struct{ millrace.CallHook }

// OnCall is [millrace.CallHook]'s.
func (h repeatHook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try == 1 {
		return ctx, nil
	}
	return h.CallHook.OnCall(ctx, call)
}
