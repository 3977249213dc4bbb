package steal

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
)

const (
	defaultBudget = 25 * time.Millisecond
	defaultFloor  = 10 * time.Second

	// slack is how far rounding may carry a sum of rates beyond 1.
	slack = 1e-9
)

// Config limits recruits. The zero value works; a field that is not positive has its
// default.
type Config struct {
	// Budget is how long a recruit may take, all its rounds together. It ends the
	// context of the slice. Defaults to 25 ms.
	Budget time.Duration

	// Floor is how long a job may go without a run before [Recruiter.Run] runs it. Up to
	// a quarter is added, so that processes do not run in step. Defaults to 10 s.
	Floor time.Duration

	// PerJob is how many slices of one job this process runs at once. Defaults to 1.
	PerJob int

	// PerProcess is how many slices this process runs at once, without those that take more
	// than twice the budget. Defaults to 2.
	PerProcess int

	// Logger reports slices that fail. Defaults to slog.Default().
	Logger *slog.Logger

	// Hooks are called at the end of each recruit; see [millrace.RecruitHook]. Defaults to none.
	Hooks []millrace.Hook
}

var errRate = millrace.ErrBadArgument.WithHint("A rate is a chance from 0 to 1, and the rates of all jobs sum up to 1 at most; 0.001 to 0.01 is usual.")

// Recruiter runs upkeep in idle moments. It is safe for concurrent use. It is a
// [millrace.Enlister].
type Recruiter struct {
	cfg      Config
	random   func() uint64 // for tests; nil draws from math/rand
	table    atomic.Pointer[table]
	enlisted atomic.Uint64 // an estimate; see sample

	// mu guards the rest and the state of all jobs. Only recruits take it, and they are
	// rare.
	mu      sync.Mutex
	running int        // slices in flight
	hanging int        // those of them that hang, and take no slot of the process
	panics  logLimiter // of hooks
	closed  bool
	quit    chan struct{} // closed by Close
	drained chan struct{} // closed when closed and no slice is in flight
}

var _ millrace.Enlister = (*Recruiter)(nil)

// table is the jobs from which a draw chooses. It is immutable and replaced as a whole.
type table struct {
	jobs   []*job
	bounds []float64 // the upper bounds of the jobs' intervals, which begin at 0
	total  float64   // the last bound
}

// job is a millrace.Job with its state in this process.
type job struct {
	millrace.Job

	// Guarded by the recruiter's mu.
	rate    float64
	removed bool
	running int
	hanging int
	hangs   logLimiter
	ran     time.Time // the start of the last run
	breaker breaker
	logged  map[string]*logLimiter
	stats   JobStats
}

// New returns a recruiter without jobs.
func New(cfg Config) *Recruiter {
	r := &Recruiter{quit: make(chan struct{}), drained: make(chan struct{})}
	r.cfg = Config{
		Budget:     cmp.Or(max(cfg.Budget, 0), defaultBudget),
		Floor:      cmp.Or(max(cfg.Floor, 0), defaultFloor),
		PerJob:     cmp.Or(max(cfg.PerJob, 0), 1),
		PerProcess: cmp.Or(max(cfg.PerProcess, 0), 2),
		Logger:     cmp.Or(cfg.Logger, slog.Default()),
		Hooks:      cfg.Hooks,
	}
	r.table.Store(&table{})
	return r
}

// Install adds a job with a rate: its chance at each enlistment, from 0 to 1. The rates
// of all jobs sum up to 1 at most; 0.001 to 0.01 is usual. At rate 0 only
// [Recruiter.Run] runs the job. Jobs may be installed, changed and removed at any time.
//
// Errors: [millrace.ErrBadArgument], also for a name that is in use.
func (r *Recruiter) Install(work millrace.Job, rate float64) error {
	if work.Name == "" || work.Slice == nil {
		return millrace.ErrBadArgument.Errorf("the job %q has no name or no slice", work.Name).
			WithHint("Give the job a name, for logs and metrics, and a Slice.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := r.table.Load().jobs
	if find(jobs, work.Name) >= 0 {
		return millrace.ErrBadArgument.Errorf("a job %q is already installed", work.Name).
			WithHint("Install each job once; give jobs of one kind different names.")
	}
	// A random start within the first floor keeps processes that start together from
	// running their floors together.
	ran := time.Now().Add(-rand.N(r.cfg.Floor))
	added := &job{Job: work, ran: ran, logged: map[string]*logLimiter{}}
	return r.rate(append(slices.Clone(jobs), added), len(jobs), rate)
}

// SetRate changes the rate of a job from the next enlistment on.
// Errors: [millrace.ErrBadArgument], [millrace.ErrNotFound].
func (r *Recruiter) SetRate(name string, rate float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := r.table.Load().jobs
	i := find(jobs, name)
	if i < 0 {
		return notInstalled(name)
	}
	return r.rate(jobs, i, rate)
}

// Remove removes a job and its [JobStats]. No slice of it starts any more; one in flight
// continues. Errors: [millrace.ErrNotFound].
func (r *Recruiter) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := r.table.Load().jobs
	i := find(jobs, name)
	if i < 0 {
		return notInstalled(name)
	}
	jobs[i].removed = true
	r.table.Store(newTable(slices.Delete(slices.Clone(jobs), i, i+1)))
	return nil
}

// rate sets the rate of jobs[i] and publishes the jobs, unless the rates exceed 1
// together. mu is held.
func (r *Recruiter) rate(jobs []*job, i int, rate float64) error {
	if !(rate >= 0 && rate <= 1) { // refuses NaN
		return errRate.Errorf("the rate of job %q is not a chance from 0 to 1: %v", jobs[i].Name, rate)
	}
	before := jobs[i].rate
	jobs[i].rate = rate
	t := newTable(jobs)
	if t.total > 1+slack {
		jobs[i].rate = before
		return errRate.Errorf("with the rate %v of job %q the rates sum up to %v, more than 1", rate, jobs[i].Name, t.total)
	}
	r.table.Store(t)
	return nil
}

func newTable(jobs []*job) *table {
	t := &table{jobs: jobs}
	for _, j := range jobs {
		t.total += j.rate
		t.bounds = append(t.bounds, t.total)
	}
	return t
}

func find(jobs []*job, name string) int {
	return slices.IndexFunc(jobs, func(j *job) bool { return j.Name == name })
}

func notInstalled(name string) error {
	return millrace.ErrNotFound.Errorf("no job %q is installed", name)
}

// Run runs every job that has not run for [Config.Floor], one after the other. It leaves
// behind a job that takes more than twice [Config.Budget], and runs it again when it has
// ended. It returns the cause of ctx's end, or nil after [Recruiter.Close], which waits for
// the jobs left behind. Call it once in each process; without it, jobs run only when they
// are drawn.
func (r *Recruiter) Run(ctx context.Context) error {
	for {
		eighth := float64(r.cfg.Floor / 8)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.quit:
			return nil
		case <-time.After(time.Duration(eighth * (1 + rand.Float64()))):
		}
		for _, j := range r.table.Load().jobs {
			if r.overdue(ctx, j) && r.admit(ctx, j, true) {
				r.floor(ctx, j)
			}
		}
	}
}

// overdue reports whether a job has not run for the floor. It logs one that cannot, because it
// hangs.
func (r *Recruiter) overdue(ctx context.Context, j *job) bool {
	r.mu.Lock()
	now := time.Now()
	late := now.Sub(j.ran) >= r.cfg.Floor
	suppressed, report := 0, false
	if late && j.hanging > 0 {
		suppressed, report = j.hangs.allow(now)
	}
	idle := j.running == 0
	r.mu.Unlock()
	if report {
		r.cfg.Logger.WarnContext(ctx, "a slice of upkeep does not end with its context, and its job waits for it",
			"job", j.Name, "budget", r.cfg.Budget, "unreported", suppressed)
	}
	return late && idle
}

// Close ends recruiting and waits for the slices in flight, those of finished requests
// included. If ctx ends first it returns the cause; the slices then end with their
// budget. Enlisting and closing again do nothing.
func (r *Recruiter) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.quit)
		r.checkDrained()
	}
	r.mu.Unlock()
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkDrained wakes callers of Close when the last slice has ended. mu is held.
func (r *Recruiter) checkDrained() {
	if r.closed && r.running == 0 {
		close(r.drained)
	}
}
