package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/script"
)

// maxWrong is how many faults of a queue a finding tells.
const maxWrong = 5

// checkKeys compares what each queue stores in two places, one queue after the other.
func checkKeys(ctx context.Context, client rueidis.Client) (all []Finding) {
	var names []string
	for name, err := range fairqueue.List(ctx, client) {
		if err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	checked := 0
	for _, name := range names[:min(len(names), maxQueues)] {
		f, looked := checkKeysOf(ctx, client, name)
		if looked {
			checked++
		}
		if f.Level != OK {
			all = append(all, f)
		}
	}
	if len(all) == 0 && checked > 0 {
		all = []Finding{{Level: OK, Value: "the keys of " + readable.Count(checked, "queue") + " agree"}}
	}
	for i := range all {
		all[i].Check = "keys"
	}
	return all
}

// checkKeysOf checks one queue, and reports whether it could be read.
func checkKeysOf(ctx context.Context, client rueidis.Client, name string) (f Finding, looked bool) {
	ctx, cancel := script.Within(ctx, timeout)
	defer cancel()
	q, err := fairqueue.New(client, name, fairqueue.Config{})
	var wrong []string
	if err == nil {
		wrong, err = q.Check(ctx)
	}
	switch {
	case errors.Is(err, millrace.ErrNotFound):
		return Finding{Level: OK}, false
	case errors.Is(err, millrace.ErrTooLarge):
		return Finding{Level: Note, Value: "the queue " + name + " is too large to be checked", Hint: "A check reads a queue at one instant. Check it again when less waits."}, false
	case err != nil:
		return warn(fmt.Sprintf("the queue %s could not be checked: %v", name, err), "Its error says what to do."), false
	case len(wrong) == 0:
		return Finding{Level: OK}, true
	}
	text := strings.Join(wrong[:min(len(wrong), maxWrong)], "; ")
	if more := len(wrong) - maxWrong; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return Finding{
		Level: Fail, Value: "in the queue " + name + " " + text,
		Hint: "Another program has changed its keys, or this is a defect of Millrace. Save a copy (BGSAVE, and the file) and report it. " +
			"Then have the queue read until it is empty, and delete it: millrace queue delete " + name,
	}, true
}
