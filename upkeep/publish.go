package upkeep

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/steal"
)

const (
	// maxJobs is how many jobs the totals have at most.
	maxJobs = 100

	// maxName is the longest name of a job in the totals, in bytes.
	maxName = 512

	// shortestLife is for how long a process counts as running after a flush, at
	// least.
	shortestLife = 30 * time.Second

	// lastTimeout bounds the flush that is made at the end.
	lastTimeout = 2 * time.Second
)

// PublishConfig is how a recruiter's counts are published. The zero value works, and
// a field that is not positive has its default.
type PublishConfig struct {
	// Interval is the time between two flushes, less up to an eighth, so that processes
	// do not march in step. A process that is killed loses what it counted since
	// its last one. Defaults to 10 s.
	Interval time.Duration

	// Logger is told when counts cannot be published, once until they can be
	// again, and once of each job that the totals have no room for. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Publish adds what became of a recruiter's recruits to the totals of all processes,
// which [ReadTotals] reads: at once, every ten seconds, and once more when ctx
// ends, for two seconds at most. It returns the cause. One call a recruiter: another
// one would add everything again.
//
// Trouble with the server ends nothing. What could not be added, as when Redis is
// full, stays and goes with the next flush. One whose reply was lost is sent again
// as it was, and is added once, as long as that is within a minute.
//
// The totals have the first 100 jobs that anybody published, with names of at
// most 512 bytes; others are left out.
func Publish(ctx context.Context, recruiter *steal.Recruiter, client rueidis.Client, cfg PublishConfig) error {
	if cfg.Interval <= 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	p := newPublisher(recruiter, client, cfg.Logger)
	for {
		if err := p.flush(ctx, max(shortestLife, 3*cfg.Interval)); ctx.Err() == nil {
			p.tell(ctx, err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			p.tell(last, p.flush(last, 0))
			return context.Cause(ctx)
		case <-time.After(cfg.Interval - mathrand.N(cfg.Interval/8+1)):
		}
	}
}

// publisher is what publishes one recruiter.
type publisher struct {
	recruiter *steal.Recruiter
	logger    *slog.Logger
	run       script.Runner
	process   string // its name in the totals

	published map[string]steal.JobStats // by the job: what is in the totals
	sent      *flight                   // sent, and not known to have arrived
	failing   bool                      // the last flush failed
	left      map[string]bool           // the jobs of which was said that they are left out
}

// flight is counts on their way: what is repeated is the same request.
type flight struct {
	request *reqid.Request
	jobs    []growth
}

// growth is what became of one job's recruits since they were last published.
type growth struct {
	now steal.JobStats
	by  [8]int64
}

func newPublisher(recruiter *steal.Recruiter, client rueidis.Client, logger *slog.Logger) *publisher {
	return &publisher{
		recruiter: recruiter,
		logger:    logger,
		run:       script.Runner{Client: client, Scripts: library},
		process:   rand.Text(),
		published: make(map[string]steal.JobStats),
		left:      make(map[string]bool),
	}
}

// flush sends what is on its way, and then what has come since. The process counts
// as running for another while, which is 0 when it ends.
func (p *publisher) flush(ctx context.Context, life time.Duration) error {
	if p.sent != nil {
		if err := p.send(ctx, life); err != nil {
			return err
		}
	}
	p.sent = &flight{request: p.run.Request(context.WithoutCancel(ctx)), jobs: p.growth(ctx)}
	return p.send(ctx, life)
}

// growth returns the jobs whose counts have grown.
func (p *publisher) growth(ctx context.Context) []growth {
	var grown []growth
	for i, now := range p.recruiter.Stats().Jobs {
		before, after := counts(p.published[now.Name]), counts(now)
		switch {
		case before == after:
		case i >= maxJobs || len(now.Name) > maxName:
			p.leave(ctx, now.Name)
		default:
			g := growth{now: now}
			for j := range g.by {
				g.by[j] = after[j] - before[j]
			}
			grown = append(grown, g)
		}
	}
	return grown
}

// counts are a job's counts in the order in which the script takes them.
func counts(s steal.JobStats) [8]int64 {
	a := s.Aborted
	return [8]int64{s.Worked, s.Idle, a.Error, a.Timeout, a.Panic, a.Busy, a.Breaker, s.Rounds}
}

// send makes one script call with what is on its way.
func (p *publisher) send(ctx context.Context, life time.Duration) error {
	args := []string{p.process, strconv.FormatInt(life.Milliseconds(), 10)}
	for _, g := range p.sent.jobs {
		args = append(args, g.now.Name)
		for _, n := range g.by {
			args = append(args, strconv.FormatInt(n, 10))
		}
		ago := ""
		if worked := g.by[0] > 0; worked {
			ago = strconv.FormatInt(time.Since(g.now.LastWorked).Milliseconds(), 10)
		}
		args = append(args, ago)
	}
	reply, err := p.run.RunRequest(ctx, p.sent.request, "publish", baseKey, args...)
	if err != nil {
		return err
	}
	left := make(map[int64]bool)
	for reply.More() {
		left[reply.Int()] = true
	}
	if reply.Err() != nil {
		return reply.Err()
	}
	p.sent.request.Done()
	for i, g := range p.sent.jobs {
		if left[int64(i+1)] {
			p.leave(ctx, g.now.Name)
		} else {
			p.published[g.now.Name] = g.now
		}
	}
	p.sent = nil
	return nil
}

// leave says, once, that the totals have no place for a job.
func (p *publisher) leave(ctx context.Context, job string) {
	if !p.left[job] {
		p.left[job] = true
		p.logger.WarnContext(ctx, "a job has no place in the totals: they have the first 100, with names of at most 512 bytes", "job", job)
	}
}

// tell says when flushes begin to fail, and when they succeed again.
func (p *publisher) tell(ctx context.Context, err error) {
	switch {
	case err != nil && !p.failing:
		p.logger.WarnContext(ctx, "counts of recruits cannot be published and are kept", "error", err)
	case err == nil && p.failing:
		p.logger.InfoContext(ctx, "counts of recruits are published again")
	}
	p.failing = err != nil
}
