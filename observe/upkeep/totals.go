package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/steal"
)

// Totals are the counts of all recruiters that ever published to a Redis, including those that have
// ended.
type Totals struct {
	// Processes is how many running recruiters publish. A killed process counts until 30
	// seconds after its last flush, or three times PublishConfig.Interval if that is longer.
	Processes int

	// Jobs are at most 100, sorted by name. LastWorked is by the server's clock. Rate,
	// Drawn, Floored and Running are unknown.
	Jobs []steal.JobStats
}

// ReadTotals returns the totals of a Redis, all of one moment; the zero value if there are
// none. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func ReadTotals(ctx context.Context, client rueidis.Client) (Totals, error) {
	run := script.Runner{Client: client, Scripts: library}
	reply, err := run.Run(ctx, "totals", baseKey)
	if err != nil {
		return Totals{}, err
	}
	t := Totals{Processes: int(reply.Int())}
	for reply.More() {
		job, err := readJob(reply.Text(), reply.Text())
		if err != nil {
			return Totals{}, err
		}
		t.Jobs = append(t.Jobs, job)
	}
	if reply.Err() != nil {
		return Totals{}, reply.Err()
	}
	slices.SortFunc(t.Jobs, func(a, b steal.JobStats) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

// readJob reads a job with its numbers.
func readJob(name, text string) (steal.JobStats, error) {
	t := steal.JobStats{Name: name}
	var worked int64
	_, err := fmt.Sscan(text, &t.Worked, &t.Idle, &t.Failed, &t.TimedOut, &t.Panicked, &t.Busy, &t.Broken, &t.Rounds, &worked)
	if err != nil {
		return t, millrace.ErrBroken.Wrap(fmt.Errorf("job %q has the counts %q: %w", t.Name, text, err))
	}
	t.Aborted = t.Failed + t.TimedOut + t.Panicked + t.Busy + t.Broken
	if worked > 0 {
		t.LastWorked = time.UnixMilli(worked)
	}
	return t, nil
}
