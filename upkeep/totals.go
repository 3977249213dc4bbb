package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Totals is what the recruiters of all processes did that ever published to a
// Redis, also those that have ended.
type Totals struct {
	// Processes is how many run that publish; one with two recruiters counts for
	// two. One that was killed counts until 30 s after its last flush, or three times
	// its PublishConfig.Every if that is longer.
	Processes int

	Jobs []JobTotals // by their names, of which there are 100 at most
}

// JobTotals is what became of the recruits of one job. Recruited is Worked + Idle +
// Aborted.Sum(), always. The counts are those of [steal.JobStats].
type JobTotals struct {
	Name string

	Recruited int64
	Worked    int64
	Idle      int64
	Aborted   Aborts

	Rounds     int64
	LastWorked time.Time // by the server's clock; zero for never
}

// Aborts counts recruits by the reason of their abort, as [steal.Aborts] does.
type Aborts struct {
	Error   int64
	Timeout int64
	Panic   int64
	Busy    int64
	Breaker int64
}

// Sum returns the aborts for all reasons.
func (a Aborts) Sum() int64 { return a.Error + a.Timeout + a.Panic + a.Busy + a.Breaker }

// ReadTotals returns what recruiters published on that Redis, all of one moment:
// nothing, if none ever did. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
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
	slices.SortFunc(t.Jobs, func(a, b JobTotals) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

// readJob reads a job with its numbers.
func readJob(name, text string) (JobTotals, error) {
	t := JobTotals{Name: name}
	var worked int64
	_, err := fmt.Sscan(text, &t.Worked, &t.Idle, &t.Aborted.Error, &t.Aborted.Timeout, &t.Aborted.Panic,
		&t.Aborted.Busy, &t.Aborted.Breaker, &t.Rounds, &worked)
	if err != nil {
		return t, millrace.ErrBroken.Wrap(fmt.Errorf("job %q has the counts %q: %w", t.Name, text, err))
	}
	t.Recruited = t.Worked + t.Idle + t.Aborted.Sum()
	if worked > 0 {
		t.LastWorked = time.UnixMilli(worked)
	}
	return t, nil
}
