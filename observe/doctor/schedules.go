package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// maxQueues is how many queues the check of schedules reads, the first by name.
	maxQueues = 1000

	// parallelQueues is how many of them it reads at the same time.
	parallelQueues = 8
)

// checkQueues reports schedules that are overdue, and queues in which something is wrong. It
// returns nothing if there is neither.
func checkQueues(ctx context.Context, client rueidis.Client) []Finding {
	ctx, cancel := script.Within(ctx, timeout)
	defer cancel()
	names, unread := queueNames(ctx, client)
	queues := make([]fairqueue.Stats, len(names))
	failed := make([]error, len(names))
	next := make(chan int)
	var reading sync.WaitGroup
	for range min(parallelQueues, len(names)) {
		reading.Go(func() {
			for i := range next {
				queues[i], failed[i] = readQueue(ctx, client, names[i])
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	reading.Wait()
	for _, err := range failed {
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			unread++
		}
	}
	return append(judgeSchedules(queues, unread), judgeQueues(queues)...)
}

// queueNames returns the first queues by name, and how many servers did not tell theirs.
func queueNames(ctx context.Context, client rueidis.Client) (names []string, unread int) {
	for name, err := range fairqueue.List(ctx, client) {
		if err != nil {
			unread++
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names[:min(len(names), maxQueues)], unread
}

func readQueue(ctx context.Context, client rueidis.Client, name string) (fairqueue.Stats, error) {
	q, err := fairqueue.New(client, name, fairqueue.Config{})
	if err != nil {
		return fairqueue.Stats{}, err
	}
	return script.Prompt(ctx, q.Stats)
}

// judgeSchedules judges the schedules of queues, besides those that could not be read.
func judgeSchedules(queues []fairqueue.Stats, unread int) (all []Finding) {
	schedules := 0
	for _, q := range queues {
		if schedules += q.Schedules; q.OverdueSchedules == 0 {
			continue
		}
		hint := "Nobody keeps it: start a reader of the queue, or upkeep. No tick is lost meanwhile unless its policy says so."
		if q.Capacity > 0 {
			hint = "The queue has readers: millrace schedule ls shows why ticks wait, and the logs of the readers say more."
		}
		all = append(all, warning("overdue", fmt.Sprintf("the queue %s has %s", readable.Name(q.Name), readable.Count(q.OverdueSchedules, "overdue schedule")), hint))
	}
	if len(all) == 0 && schedules > 0 {
		all = append(all, ok(readable.Count(schedules, "schedule")+", none overdue"))
	}
	if unread > 0 {
		all = append(all, note("unread", readable.Count(unread, "queue")+" could not be read", "Repeat this when all servers answer."))
	}
	return in("schedules", all)
}
