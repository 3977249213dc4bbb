package steal

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
)

const (
	// BudgetDefault is how long a recruit may take.
	BudgetDefault = 25 * time.Millisecond

	// FloorDefault is how long a job may go without a run.
	FloorDefault = 10 * time.Second

	// PerJobDefault is how many slices of one job a process runs at once.
	PerJobDefault = 1

	// PerProcessDefault is how many slices a process runs at once.
	PerProcessDefault = 2

	// slack is how far rounding may carry a sum of rates beyond 1.
	slack = 1e-9
)

var (
	// ErrJob means that the job has no name or no slice.
	ErrJob = &millrace.Error{
		Code: "bad_job",
		Hint: "Give the job a name, for logs and metrics, and a Slice.",
	}

	// ErrRate means that the rate is no chance, or more than the jobs before
	// have left.
	ErrRate = &millrace.Error{
		Code: "bad_rate",
		Hint: "A rate is a chance from 0 to 1, and the rates of all jobs sum up to 1 at most; 0.001 to 0.01 is usual.",
	}

	// ErrInstalled means that a job of that name is installed.
	ErrInstalled = &millrace.Error{
		Code: "already_installed",
		Hint: "Install each job once; give jobs of the same kind names that tell them apart.",
	}
)

// Job is a piece of upkeep; see [millrace.Job].
type Job = millrace.Job

// Config is how a Recruiter treats those it recruits. The zero value works, and
// a field that is not positive has its default.
type Config struct {
	// Budget is how long a recruit may take, all its rounds together. It ends
	// the context of the slice. Defaults to [BudgetDefault].
	Budget time.Duration

	// Floor is how long a job may go without a run before [Recruiter.Run] runs
	// it; up to a quarter is added, so that processes do not march in step.
	// Defaults to [FloorDefault].
	Floor time.Duration

	// PerJob is how many slices of one job this process runs at once. Defaults
	// to [PerJobDefault].
	PerJob int

	// PerProcess is how many slices this process runs at once. Defaults to
	// [PerProcessDefault].
	PerProcess int

	// Logger is told of slices that fail. Defaults to slog.Default().
	Logger *slog.Logger

	// Hooks watch the recruits; see [RecruitHook]. Defaults to none.
	Hooks []millrace.Hook
}

func (c Config) withDefaults() Config {
	if c.Budget <= 0 {
		c.Budget = BudgetDefault
	}
	if c.Floor <= 0 {
		c.Floor = FloorDefault
	}
	if c.PerJob <= 0 {
		c.PerJob = PerJobDefault
	}
	if c.PerProcess <= 0 {
		c.PerProcess = PerProcessDefault
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Recruiter gives idle moments to jobs. New makes it; it is safe for concurrent
// use. It is a [millrace.Enlister].
type Recruiter struct {
	cfg      Config
	random   func() uint64 // for tests; nil draws from math/rand
	table    atomic.Pointer[table]
	enlisted atomic.Uint64 // an estimate; see sample

	// mu guards what follows and the state of all jobs. Only recruits take it,
	// and they are few.
	mu      sync.Mutex
	running int   // slices under way
	voice   voice // of hooks that panic
	closed  bool
	quit    chan struct{} // closed by Close
	drained chan struct{} // closed when closed and nothing is under way
}

var _ millrace.Enlister = (*Recruiter)(nil)

// table is what there is to draw. It never changes; another one takes its place.
type table struct {
	jobs   []*job
	bounds []float64 // the upper bounds of the jobs' intervals, which begin at 0
	total  float64   // the last bound
}

// job is a Job with what this process knows of it.
type job struct {
	Job

	// Guarded by the recruiter's mu.
	rate    float64
	removed bool
	running int
	ran     time.Time // when it last began to run
	breaker breaker
	voice   voice
	stats   JobStats
}

// New returns a recruiter without jobs.
func New(cfg Config) *Recruiter {
	r := &Recruiter{
		cfg:     cfg.withDefaults(),
		quit:    make(chan struct{}),
		drained: make(chan struct{}),
	}
	r.table.Store(&table{})
	return r
}

// Install gives a job the chance rate at each enlistment, from 0 to 1. At rate 0
// only [Recruiter.Run] runs it. Jobs may be installed, changed and removed while
// others are at work.
//
// Errors are derived from [ErrJob], [ErrRate] and [ErrInstalled], and nothing is
// installed then.
func (r *Recruiter) Install(work Job, rate float64) error {
	switch {
	case work.Name == "":
		return ErrJob.Errorf("the job has no name")
	case work.Slice == nil:
		return ErrJob.Errorf("the job %q has no slice", work.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := r.table.Load().jobs
	if find(jobs, work.Name) >= 0 {
		return ErrInstalled.Errorf("a job %q is installed already", work.Name)
	}
	// A start somewhere in the first floor keeps processes that start together
	// from running their floors together.
	ran := time.Now().Add(-rand.N(r.cfg.Floor))
	return r.rate(append(slices.Clone(jobs), &job{Job: work, ran: ran}), len(jobs), rate)
}

// SetRate gives a job another rate, from the next enlistment on. Errors are derived
// from [ErrRate] and [millrace.ErrNotFound], and nothing is changed then.
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

// Remove takes a job away, and its [JobStats]. No slice of it begins any more; one that
// is under way goes on. Errors are derived from [millrace.ErrNotFound].
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

// rate gives one of the jobs a rate, unless they are more than certain together then,
// and has them drawn from now on. The lock is held.
func (r *Recruiter) rate(jobs []*job, i int, rate float64) error {
	if !(rate >= 0 && rate <= 1) { // so that NaN is refused
		return ErrRate.Errorf("the rate of job %q is not a chance: %v", jobs[i].Name, rate)
	}
	before := jobs[i].rate
	jobs[i].rate = rate
	t := newTable(jobs)
	if t.total > 1+slack {
		jobs[i].rate = before
		return ErrRate.Errorf("with the rate %v of job %q the rates sum up to %v", rate, jobs[i].Name, t.total)
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

// find returns the position of the job of that name, and -1 if there is none.
func find(jobs []*job, name string) int {
	return slices.IndexFunc(jobs, func(j *job) bool { return j.Name == name })
}

func notInstalled(name string) error {
	return millrace.ErrNotFound.Errorf("no job %q is installed", name)
}
