package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/figures"
)

// hook counts the work of this process.
type hook struct {
	calls       *prometheus.CounterVec
	retries     *prometheus.CounterVec
	callSeconds *prometheus.HistogramVec

	handled       *prometheus.CounterVec
	handleSeconds *prometheus.HistogramVec
	pickupDelay   *prometheus.HistogramVec

	recruited      *prometheus.CounterVec
	rounds         *prometheus.CounterVec
	recruitSeconds *prometheus.HistogramVec

	outcomes outcomes
}

var (
	_ millrace.CallHook    = (*hook)(nil)
	_ millrace.HandleHook  = (*hook)(nil)
	_ millrace.ReadHook    = (*hook)(nil)
	_ millrace.RecruitHook = (*hook)(nil)
)

// New returns a hook that counts the work of this process, and registers its metrics with
// reg, all or none. Put the hook into Config.Hooks of all structures and of the recruiter.
// A registry accepts one hook; errors are those of reg. The hook is safe for concurrent use.
func New(reg prometheus.Registerer) (millrace.Hook, error) {
	h := &hook{
		calls:       counters("calls_total", "Script calls to Redis by outcome; each try counts.", "script", "outcome"),
		retries:     counters("call_retries_total", "Script calls that repeated an earlier try.", "script"),
		callSeconds: histograms("call_seconds", "Duration of script calls; each try counts.", durations, "script"),

		handled:       counters("handled_total", "Runs of handlers by outcome.", "structure", "outcome"),
		handleSeconds: histograms("handle_seconds", "Duration of handlers.", durations, "structure"),
		pickupDelay:   histograms("pickup_delay_seconds", "How long the oldest message or mark of a handler or of a read had waited.", waits, "structure"),

		recruited:      counters("steal_recruited_total", "Recruits for upkeep by origin and outcome.", "task", "via", "outcome"),
		rounds:         counters("steal_rounds_total", "Slices of upkeep that recruits ran.", "task"),
		recruitSeconds: histograms("steal_recruit_seconds", "Duration of recruits that ran, all slices together.", durations, "task"),
	}
	if err := reg.Register(together{
		h.calls, h.retries, h.callSeconds, h.handled, h.handleSeconds, h.pickupDelay, h.recruited, h.rounds, h.recruitSeconds,
	}); err != nil {
		return nil, err
	}
	return h, nil
}

// OnCall counts a script call.
func (h *hook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try > 1 {
		h.retries.WithLabelValues(call.Script).Inc()
	}
	began := time.Now()
	return ctx, func(err error) {
		h.callSeconds.WithLabelValues(call.Script).Observe(time.Since(began).Seconds())
		h.calls.WithLabelValues(call.Script, h.outcomes.of(err)).Inc()
	}
}

// OnHandle counts a run of a handler.
func (h *hook) OnHandle(ctx context.Context, work millrace.Handling) (context.Context, func(error)) {
	if work.Age >= 0 {
		h.pickupDelay.WithLabelValues(work.Structure).Observe(work.Age.Seconds())
	}
	began := time.Now()
	return ctx, func(err error) {
		h.handleSeconds.WithLabelValues(work.Structure).Observe(time.Since(began).Seconds())
		h.handled.WithLabelValues(work.Structure, h.outcomes.of(err)).Inc()
	}
}

// OnRead notes how long messages waited for a program that reads them.
func (h *hook) OnRead(_ context.Context, work millrace.Handling) {
	h.pickupDelay.WithLabelValues(work.Structure).Observe(work.Age.Seconds())
}

// OnRecruit counts a recruit.
func (h *hook) OnRecruit(_ context.Context, end millrace.Recruited) {
	job, via := figures.Label(end.Job), "draw"
	if end.Floor {
		via = "floor"
	}
	h.recruited.WithLabelValues(job, via, end.Outcome).Inc()
	h.rounds.WithLabelValues(job).Add(float64(end.Rounds))
	if end.Rounds > 0 {
		h.recruitSeconds.WithLabelValues(job).Observe(end.Took.Seconds())
	}
}

// Upper bounds in seconds: of calls and handlers, from a call to a near Redis to more than
// any timeout, and of waiting times, which may be hours.
var (
	durations = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	waits     = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600, 6 * 3600}
)

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: figures.Namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Namespace: figures.Namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// together is several collectors that are registered all or none.
type together []prometheus.Collector

func (t together) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range t {
		c.Describe(ch)
	}
}

func (t together) Collect(ch chan<- prometheus.Metric) {
	for _, c := range t {
		c.Collect(ch)
	}
}
