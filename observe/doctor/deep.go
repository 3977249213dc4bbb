package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/script"
)

// maxWrong is how many faults of a queue a finding tells.
const maxWrong = 5

// checkKeys compares the data that each queue stores in two places, one queue after the other.
func checkKeys(ctx context.Context, client rueidis.Client) (all []Finding) {
	names, _ := queueNames(ctx, client) // checkQueues reports unreadable ones
	checked := 0
	for _, name := range names {
		f, looked := checkKeysOf(ctx, client, name)
		if looked {
			checked++
		}
		if f.Severity != OK {
			all = append(all, f)
		}
	}
	if len(all) == 0 && checked > 0 {
		all = []Finding{ok("the keys of " + readable.Count(checked, "queue") + " agree")}
	}
	return in("keys", all)
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
	shown := readable.Name(name)
	switch {
	case errors.Is(err, millrace.ErrNotFound):
		return Finding{}, false
	case errors.Is(err, millrace.ErrTooLarge):
		return note("too_large", "the queue "+shown+" is too large to be checked", "A check reads a queue at one instant. Check it again when less waits."), false
	case err != nil:
		return warning("not_checked", fmt.Sprintf("the queue %s could not be checked: %v", shown, err), "Its error says what to do."), false
	case len(wrong) == 0:
		return Finding{}, true
	}
	text := strings.Join(wrong[:min(len(wrong), maxWrong)], "; ")
	if more := len(wrong) - maxWrong; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return critical("keys_differ", "in the queue "+shown+" "+text,
		"Another program has changed its keys, or this is a defect of Millrace. Save a copy (BGSAVE, and the file) and report it. "+
			"Then have the queue read until it is empty, and delete it: millrace queue rm "+shown), true
}
