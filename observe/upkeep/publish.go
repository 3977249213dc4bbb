package upkeep

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/steal"
)

const (
	maxJobs = 100 // in the totals
	maxName = 512 // bytes of a job's name

	// minTTL is how long a process counts as running after a flush, at least.
	minTTL = 30 * time.Second

	// lastTimeout limits the last flush.
	lastTimeout = 2 * time.Second
)

// PublishConfig configures Publish. The zero value works.
type PublishConfig struct {
	// Interval is the time between flushes, less up to an eighth at random, so that
	// processes do not flush at the same time. A killed process loses its counts since
	// the last flush. Defaults to 10 seconds.
	Interval time.Duration

	// Logger logs when flushes begin to fail and when they succeed again, and once each
	// job for which the totals have no room. Defaults to slog.Default().
	Logger *slog.Logger
}

// Publish adds the counts of a recruiter to the totals of all processes, which [ReadTotals]
// reads: at once, every ten seconds, and once more when ctx ends, for two seconds at most.
// It returns the cause of ctx. Call it once for each recruiter: a second call adds
// everything again.
//
// Errors of the server do not end it. Counts that could not be added, as when Redis is full,
// go with the next flush. A flush whose reply was lost is repeated, and applied once if the
// repeat arrives within a minute.
//
// The totals have the first 100 jobs that any process published, with names of at most 512
// bytes; others are left out.
func Publish(ctx context.Context, recruiter *steal.Recruiter, client rueidis.Client, cfg PublishConfig) error {
	if cfg.Interval <= 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	p := newPublisher(recruiter, client, cfg.Logger)
	for {
		if err := p.flush(ctx, max(minTTL, 3*cfg.Interval)); ctx.Err() == nil {
			p.logChange(ctx, err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			p.logChange(last, p.flush(last, 0))
			return context.Cause(ctx)
		case <-time.After(cfg.Interval - mathrand.N(cfg.Interval/8+1)):
		}
	}
}

// publisher publishes one recruiter.
type publisher struct {
	recruiter *steal.Recruiter
	logger    *slog.Logger
	run       script.Runner
	process   string // its name in the totals

	published map[string]steal.JobStats // by the job: its share of the totals
	sent      *flush                    // sent, and not known to have arrived
	failing   bool                      // the last flush failed
	left      map[string]bool           // jobs that were logged as left out
}

// flush is a request in flight, which is repeated unchanged.
type flush struct {
	request *reqid.Request
	jobs    []growth
}

// growth is the counts of a job since they were last published.
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

// flush repeats the request in flight, if any, and then sends new counts. The process counts
// as running for ttl; 0 if it ends.
func (p *publisher) flush(ctx context.Context, ttl time.Duration) error {
	if p.sent != nil {
		if err := p.send(ctx, ttl); err != nil {
			return err
		}
	}
	p.sent = &flush{request: p.run.Request(context.WithoutCancel(ctx)), jobs: p.growth(ctx)}
	return p.send(ctx, ttl)
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

// counts returns a job's counts in the order of the script.
func counts(s steal.JobStats) [8]int64 {
	return [8]int64{s.Worked, s.Idle, s.Failed, s.TimedOut, s.Panicked, s.Busy, s.Broken, s.Rounds}
}

// send sends the request in flight.
func (p *publisher) send(ctx context.Context, ttl time.Duration) error {
	args := []string{p.process, strconv.FormatInt(ttl.Milliseconds(), 10)}
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

// leave logs, once, that the totals have no room for a job.
func (p *publisher) leave(ctx context.Context, job string) {
	if !p.left[job] {
		p.left[job] = true
		p.logger.WarnContext(ctx, "a job has no place in the totals: they have the first 100, with names of at most 512 bytes", "job", job)
	}
}

// logChange logs when flushes begin to fail, and when they succeed again.
func (p *publisher) logChange(ctx context.Context, err error) {
	switch {
	case err != nil && !p.failing:
		p.logger.WarnContext(ctx, "counts of recruits cannot be published and are kept", "error", err)
	case err == nil && p.failing:
		p.logger.InfoContext(ctx, "counts of recruits are published again")
	}
	p.failing = err != nil
}
