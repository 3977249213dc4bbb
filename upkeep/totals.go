package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	script "github.com/millrace/millrace/internal/oldscript"
)

// Errors of the totals. What is returned is derived from them and says more.
var (
	// ErrBroken means that a key of the totals holds something else. Nothing was
	// changed.
	ErrBroken = &millrace.Error{
		Code:    "broken",
		Message: "a key of the recruiters' totals holds something else",
		Hint:    "Look at " + baseKey + " and the keys that begin with it, and delete what should not be there.",
	}

	// ErrVersion means that the totals were written in a version that this one does
	// not know. Nothing was changed.
	ErrVersion = &millrace.Error{
		Code:    "unknown_version",
		Message: "the version of the recruiters' totals is not 1",
		Hint:    "Use the Millrace that wrote them.",
	}
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
// nothing, if none ever did. Errors: [ErrBroken], [ErrVersion].
func ReadTotals(ctx context.Context, client rueidis.Client) (Totals, error) {
	run := script.Runner{Client: client}
	reply, err := run.Run(ctx, totalsScript, baseKey)
	if err != nil {
		return Totals{}, named(err)
	}
	values, err := reply.ToArray()
	if err != nil || len(values)%2 == 0 {
		return Totals{}, fmt.Errorf("upkeep.totals answered %d values: %w", len(values), err)
	}
	processes, err := values[0].ToInt64()
	if err != nil {
		return Totals{}, err
	}
	t := Totals{Processes: int(processes)}
	for pair := range slices.Chunk(values[1:], 2) {
		job, err := readJob(pair[0], pair[1])
		if err != nil {
			return Totals{}, err
		}
		t.Jobs = append(t.Jobs, job)
	}
	slices.SortFunc(t.Jobs, func(a, b JobTotals) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

// readJob reads a job with its numbers.
func readJob(name, numbers rueidis.RedisMessage) (t JobTotals, err error) {
	if t.Name, err = name.ToString(); err != nil {
		return t, err
	}
	text, err := numbers.ToString()
	if err != nil {
		return t, err
	}
	var worked int64
	_, err = fmt.Sscan(text, &t.Worked, &t.Idle, &t.Aborted.Error, &t.Aborted.Timeout, &t.Aborted.Panic,
		&t.Aborted.Busy, &t.Aborted.Breaker, &t.Rounds, &worked)
	if err != nil {
		return t, ErrBroken.With(fmt.Errorf("job %q has the counts %q: %w", t.Name, text, err))
	}
	t.Recruited = t.Worked + t.Idle + t.Aborted.Sum()
	if worked > 0 {
		t.LastWorked = time.UnixMilli(worked)
	}
	return t, nil
}

// named gives the errors that Redis answers with the names of this package.
func named(err error) error {
	switch {
	case retry.Code(err, "STEALVERSION"):
		return ErrVersion.With(err)
	case retry.Code(err, "STEALBROKEN"), retry.Code(err, "WRONGTYPE"):
		return ErrBroken.With(err)
	}
	return err
}
