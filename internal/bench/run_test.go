package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestRunMeasuresAllAndCleansUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := server.Client(t)
	if err := c.Do(t.Context(), c.B().Set().Key("theirs").Value("stays").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	report, err := Run(t.Context(), Config{Client: c, Server: "here", Duration: short, Progress: &progress, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantFigures(t, report, len(Figures()))
	if report.Server != "here" || report.RoundTripUS <= 0 || report.DurationMS != short.Milliseconds() {
		t.Errorf("report = %+v, want server, round trip and duration", report)
	}
	if got, want := len(report.NotMeasured), len(Elsewhere()); got != want {
		t.Errorf("%d figures were not measured, want %d", got, want)
	}
	if got, want := keys(t, c, "*"), []string{"theirs"}; !slices.Equal(got, want) {
		t.Errorf("keys = %q, want %q", got, want)
	}
	for _, want := range []string{"under the name bench-", "  queue_cycle: "} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, progress.String())
		}
	}
}

// A side runs until it is cancelled, and then nothing of it is left.
func TestCancelCleansUp(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for _, f := range Figures() {
		if f.Name == "queue_pickup_p99" { // another number of the same sides
			continue
		}
		for _, side := range f.Sides {
			t.Run(f.Name+"/"+side.Name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{})
				c := server.Client(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				enough := errors.New("enough")
				cfg := Config{Client: c, Figures: []Figure{{Name: f.Name, What: f.What, Sides: []Side{side}}}, Duration: time.Hour}
				ended := make(chan error, 1)
				go func() {
					_, err := Run(ctx, cfg)
					ended <- err
				}()
				redistest.Eventually(t, "it is under way, or at its end", func() bool {
					return len(ended) > 0 || commands(server) > 300 // some of them this
				})
				cancel(enough)
				begin := time.Now()
				err := <-ended
				if !errors.Is(err, enough) && !errors.Is(err, context.Canceled) && (err != nil || !f.Once) {
					t.Errorf("Run = %v, want %v", err, enough)
				}
				if errors.Is(err, errLeft) {
					t.Errorf("Run = %v", err)
				}
				if took := time.Since(begin); took > time.Minute { // of an hour
					t.Errorf("Run went on for %v after the cancel", took)
				}
				wantEmpty(t, c)
			})
		}
	}
}

// commands is how many a server has got.
func commands(server *redistest.Server) int {
	n, _ := strconv.Atoi(server.Info("stats")["total_commands_processed"])
	return n
}

// onManyServers returns figures for all ways in which commands find their server.
func onManyServers(t *testing.T) []Figure {
	t.Helper()
	figures, err := Choose("ick_exchange", "queue_cycle", "queue_pickup_median", "lease_acquire", "hash_get", "hash_set")
	if err != nil {
		t.Fatal(err)
	}
	return figures
}

func TestRunOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	figures := onManyServers(t)
	report, err := Run(t.Context(), Config{Client: cluster.Client(t), Figures: figures, Duration: short, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantFigures(t, report, len(figures))
	for _, node := range cluster.Nodes {
		wantEmpty(t, node.Client(t))
	}
}

func TestRunOnAFleet(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	servers, err := devfleet.Start(t.Context(), devfleet.Config{
		Nodes: 1, Partitions: 2, Replicas: devfleet.NoReplicas,
		Settings: directory.Settings{ViewTTL: time.Second, ReplyTimeout: 2 * time.Second, PlacementTTL: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Stop() })
	f, err := fleet.Dial(t.Context(), servers.URL(), fleet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	figures := onManyServers(t)
	report, err := Run(t.Context(), Config{Client: f.Client(), Figures: figures, Duration: short, Forget: f.Forget, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantFigures(t, report, len(figures))
	for _, server := range servers.Servers() {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if left := keys(t, c, "*bench-*"); len(left) > 0 {
			t.Errorf("keys are left on %s: %q", server.Addr, left)
		}
	}
}

// A figure that the server refuses is reported, and the rest is measured.
func TestRunWhereLeasesAreRefused(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{MaxMemory: "64mb", Policy: "allkeys-lru"}).Client(t)
	figures, err := Choose("lease", "ick_add")
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Config{Client: c, Figures: figures, Duration: short})
	if err != nil {
		t.Fatal(err)
	}
	wantFigures(t, report, 1)
	var names []string
	for _, a := range report.NotMeasured {
		names = append(names, a.Name)
		if !strings.Contains(a.Why, "maxmemory-policy") {
			t.Errorf("%s was not measured because %q, want a word about the policy", a.Name, a.Why)
		}
	}
	if want := []string{"lease_acquire", "lease_refresh"}; !slices.Equal(names, want) {
		t.Errorf("not measured: %q, want %q", names, want)
	}
}

func TestRunEndsWithWhatFails(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{}).Client(t)
	broken := errors.New("broken")
	fail := func(context.Context, *B) float64 { return must.Get(0.0, broken) }
	one := func(context.Context, *B) float64 { return 1 }
	report, err := Run(t.Context(), Config{Client: c, Duration: short, Figures: []Figure{
		{Name: "good", Sides: []Side{{Measure: one}, {Measure: one}}},
		{Name: "bad", What: "what is bad", Sides: []Side{{Measure: one}, {Name: "the other", Measure: fail}}},
	}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "what is bad, the other") {
		t.Errorf("Run = %v, want one that says which side failed", err)
	}
	if got := len(report.Figures); got != 1 {
		t.Errorf("%d figures, want the one before", got)
	}
}

// Keys that cannot be deleted are reported, also when the run was interrupted.
func TestKeysThatAreLeftAreTold(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{}).Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	leave := func(ctx context.Context, b *B) float64 {
		b.deleteAfter(func(context.Context) (int, error) { return 0, io.ErrUnexpectedEOF })
		cancel()
		return must.Get(0.0, context.Cause(ctx))
	}
	var progress strings.Builder
	_, err := Run(ctx, Config{Client: c, Progress: &progress, Figures: []Figure{{Name: "f", Sides: []Side{{Measure: leave}}}}})
	if !errors.Is(err, errLeft) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Run = %v, want %v", err, errLeft)
	}
	if !strings.Contains(progress.String(), "are left: those of bench-") {
		t.Errorf("progress does not say what is left:\n%s", progress.String())
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ names, want string }{
		{"ick_add", "ick_add"},
		{"lease ick_exchange", "ick_exchange lease_acquire lease_refresh"},
		{"ick_add ick_add", "ick_add"},
		{"ick", "ick_add ick_add_alone ick_exchange"},
	} {
		figures, err := Choose(strings.Fields(test.names)...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range figures {
			got = append(got, f.Name)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("Choose(%s) = %s, want %s", test.names, got, test.want)
		}
	}
	for _, name := range []string{"", "ick_", "ic", "add", "ick_add,ick_exchange", "failover"} {
		_, err := Choose("ick_add", name)
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || !strings.Contains(millrace.Hint(err), "queue_limits") {
			t.Errorf("Choose(%q) = %v (%s), want one that lists the names", name, err, millrace.Hint(err))
		}
	}
}

// Names are for programs: no two are the same, and none changes by accident.
func TestNames(t *testing.T) {
	t.Parallel()
	want := "ick_add ick_add_alone ick_exchange " +
		"queue_cycle queue_batch queue_backlog queue_pickup_median queue_pickup_p99 queue_fairness queue_fairness_consume queue_limits " +
		"lease_acquire lease_refresh hash_get hash_set hash_set_many hash_overdue_p99"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("names = %s\nwant %s", got, want)
	}
}

func TestPageTellsOfEveryFigure(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/BENCHMARKS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/BENCHMARKS.md has no word about %s", name)
		}
	}
}
