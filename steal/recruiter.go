package steal

import (
	"log/slog"
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
	running int // slices under way
	closed  bool
	quit    chan struct{} // closed by Close
	drained chan struct{} // closed when closed and nothing is under way
}

var _ millrace.Enlister = (*Recruiter)(nil)

// table is what there is to draw. It never changes; Install makes another.
type table struct {
	jobs   []*job
	bounds []float64 // the upper bounds of the jobs' intervals, which begin at 0
	total  float64   // the last bound
}

// job is a Job with what this process knows of it.
type job struct {
	Job
	rate float64

	// Guarded by the recruiter's mu.
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
// only [Recruiter.Run] runs it. Jobs may be installed while others are at work.
//
// Errors are derived from [ErrJob], [ErrRate] and [ErrInstalled], and nothing is
// installed then.
func (r *Recruiter) Install(work Job, rate float64) error {
	switch {
	case work.Name == "":
		return ErrJob.Saying("the job has no name")
	case work.Slice == nil:
		return ErrJob.Saying("the job %q has no slice", work.Name)
	case !(rate >= 0 && rate <= 1): // so that NaN is refused
		return ErrRate.Saying("the rate of job %q is not a chance: %v", work.Name, rate)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.table.Load()
	for _, other := range old.jobs {
		if other.Name == work.Name {
			return ErrInstalled.Saying("a job %q is installed already", work.Name)
		}
	}
	total := old.total + rate
	if total > 1+slack {
		return ErrRate.Saying("with the rate %v of job %q the rates sum up to %v", rate, work.Name, total)
	}
	// A start somewhere in the first floor keeps processes that start together
	// from running their floors together.
	ran := time.Now().Add(-time.Duration(r.uniform() * float64(r.cfg.Floor)))
	fresh := &job{Job: work, rate: rate, ran: ran}
	r.table.Store(&table{
		jobs:   append(slices.Clip(old.jobs), fresh),
		bounds: append(slices.Clip(old.bounds), total),
		total:  total,
	})
	return nil
}
