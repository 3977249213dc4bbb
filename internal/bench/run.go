package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// DurationDefault is how long a side runs in a round.
	DurationDefault = 500 * time.Millisecond

	// roundsDefault is of how many rounds medians are.
	roundsDefault = 3
)

// Figures returns all that is measured here, in the order to show.
func Figures() []Figure {
	return slices.Concat(ickFigures(), queueFigures(), leaseFigures(), hashFigures())
}

// ErrUnknown means that there is no figure of a name.
var ErrUnknown = &millrace.Error{Code: "bad_usage", Message: "there is no such figure"}

// Choose returns the figures of those names, each of which may also be a structure,
// for all of its figures. The error is derived from [ErrUnknown].
func Choose(names ...string) ([]Figure, error) {
	chosen := make(map[string]bool)
	for _, name := range names {
		known := false
		for _, f := range Figures() {
			if structure, _, _ := strings.Cut(f.Name, "_"); name == f.Name || name == structure {
				chosen[f.Name], known = true, true
			}
		}
		if !known {
			err := ErrUnknown.Errorf("there is no figure %q", name)
			err.Hint = "There are " + strings.Join(Names(), ", ") + "; or a structure for all of its own, such as queue."
			return nil, err
		}
	}
	return slices.DeleteFunc(Figures(), func(f Figure) bool { return !chosen[f.Name] }), nil
}

// Names returns the names of all figures.
func Names() []string {
	var names []string
	for _, f := range Figures() {
		names = append(names, f.Name)
	}
	return names
}

// Config says which figures to measure, and how. Client is needed.
type Config struct {
	// Client is connected to the server to measure on: one, Sentinel, a Cluster or a
	// fleet.
	Client rueidis.Client

	// Server describes the server, for people.
	Server string

	// Figures are the figures to measure. Defaults to all; the report then also lists
	// those that are measured elsewhere.
	Figures []Figure

	// Duration is how long a side runs in a round; its start and its clean-up take
	// additional time. Defaults to [DurationDefault].
	Duration time.Duration

	// Forget gives up the places that hash tags have on a fleet, when nothing is
	// there any more. Defaults to nothing, where there is no fleet.
	Forget func(ctx context.Context, tags ...string) (inUse []string, err error)

	// Progress receives lines for people. Defaults to io.Discard.
	Progress io.Writer

	// Live says that Progress is a terminal, on which progress is redrawn in
	// place. Defaults to a line now and then.
	Live bool

	// Rounds is how often each side is measured. Defaults to 3.
	Rounds int
}

// Run measures. A figure that cannot be measured on a server is in the report with the
// reason; any other error ends the run.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	r := &run{
		Config:   cfg,
		progress: screen.New(cfg.Progress, cfg.Live),
		b: B{
			Client: cfg.Client,
			Name:   "bench-" + strings.ToLower(rand.Text()[:10]),
			Time:   cmp.Or(cfg.Duration, DurationDefault),
		},
		start: time.Now(),
	}
	if r.Figures == nil {
		r.Figures = Figures()
		defer func() { report.NotMeasured = append(report.NotMeasured, Elsewhere()...) }()
	}
	r.Rounds = cmp.Or(r.Rounds, roundsDefault)
	for _, f := range r.Figures {
		r.planned += len(f.Sides) * r.roundsOf(f)
	}
	r.progress.Say("Measuring %s, which takes about %.0f s. The keys are under the name %s, and deleted as it goes.",
		readable.Count(len(r.Figures), "figure"), r.remaining().Seconds(), r.b.Name)
	defer r.progress.Wipe()
	report, err = r.all(ctx)
	return report, errors.Join(err, r.forget(ctx))
}

// run is a run in progress.
type run struct {
	Config

	b        B
	progress *screen.Screen
	start    time.Time
	planned  int // sides to measure, in all rounds
	done     int // those that were
}

// roundsOf is how often a figure is measured.
func (r *run) roundsOf(f Figure) int {
	if f.Once {
		return 1
	}
	return r.Rounds
}

func (r *run) all(ctx context.Context) (Report, error) {
	report := Report{
		Server:     r.Server,
		CPUs:       runtime.NumCPU(),
		Goroutines: Goroutines,
		DurationMS: r.b.Time.Milliseconds(),
		Figures:    []Result{}, NotMeasured: []Absent{},
	}
	way, err := roundTrip(ctx, &r.b)
	if err != nil {
		return report, err
	}
	report.RoundTripUS = digits(float64(way.Nanoseconds()) / 1000)
	r.progress.Begin()
	for _, f := range r.Figures {
		rest := r.planned - r.done - len(f.Sides)*r.roundsOf(f)
		result, err := f.Compare(ctx, r.b, r.roundsOf(f), func(round int, side string) { r.show(f, round, side) })
		if errors.Is(err, millrace.ErrEvictable) {
			r.planned = r.done + rest
			report.NotMeasured = append(report.NotMeasured, Absent{Name: f.Name, What: f.What, Why: millrace.Hint(err)})
			r.progress.Say("  %s: not measured: %s", f.Name, err)
			continue
		}
		if err != nil {
			if errors.Is(err, errLeft) { // which an interrupt must not hide
				r.progress.Say("  %s", err)
			}
			return report, err
		}
		report.Figures = append(report.Figures, result)
		r.progress.Say("  %s: %s", cmp.Or(f.Name, f.What), result.line())
	}
	return report, nil
}

// show tells which side is measured next.
func (r *run) show(f Figure, round int, side string) {
	elapsed := time.Since(r.start)
	r.progress.Show(screen.Frame{
		Title: "bench",
		Done:  elapsed,
		Whole: elapsed + r.remaining(),
		Rows:  [][]string{{cmp.Or(f.Name, f.What), fmt.Sprintf("round %d of %d", round, r.roundsOf(f)), side}},
	})
	r.done++
}

// remaining is about how long the rest takes: as long for each side as those before.
func (r *run) remaining() time.Duration {
	each := r.b.Time * 3 / 2
	if r.done > 0 {
		each = time.Since(r.start) / time.Duration(r.done)
	}
	return each * time.Duration(r.planned-r.done)
}

// forgetTimeout bounds forget, which a cancel does not end.
const forgetTimeout = time.Minute

// forget has a fleet forget the places of names that are not used any more.
func (r *run) forget(ctx context.Context) error {
	if r.Forget == nil {
		return nil
	}
	tags := []string{r.b.Name}
	for i := range Goroutines {
		tags = append(tags, leaseName(&r.b, i))
	}
	for i := range shards.Default {
		tags = append(tags, r.b.Name+"/"+strconv.Itoa(i))
	}
	r.progress.Say("  the fleet forgets the places of names that were used, which takes some seconds")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	_, err := r.Forget(ctx, tags...)
	return err
}
