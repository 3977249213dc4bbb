package recipes

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/schedule/cron"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func open(t *testing.T, client rueidis.Client) *fairqueue.Queue {
	t.Helper()
	q, err := fairqueue.New(client, "orders", fairqueue.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func nothing(context.Context, fairqueue.Message) error { return nil }

// A customer has at most four handlers, and at most as many waiting messages as an operator allows, also after a restart.
func TestLimits(t *testing.T) {
	t.Parallel()
	q, ctx := open(t, millracetest.Redis(t)), t.Context()
	must(t, setLimits(ctx, q), q.Limits().Set(ctx, "globex", fairqueue.OwnLimits{MaxWaiting: new(6)}), setLimits(ctx, q))
	var answers []int
	for range 7 {
		w := httptest.NewRecorder()
		accept(w, httptest.NewRequest(http.MethodPost, "/", nil), q, "globex", []byte("event"))
		answers = append(answers, w.Code)
	}
	if want := []int{202, 202, 202, 202, 202, 202, 429}; !slices.Equal(answers, want) {
		t.Errorf("seven posts are answered %v, want %v", answers, want)
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: 10})
	if err != nil || len(messages) != 4 {
		t.Errorf("a read takes %d messages, %v, want 4", len(messages), err)
	}
	acme, err := q.Limits().Get(ctx, "acme")
	if err != nil || acme.Rate != 100 || acme.Weight != 3 || acme.MaxInFlight != 4 {
		t.Errorf("acme has %+v, %v, want its own rate and weight, and the default of the rest", acme.Limits, err)
	}
}

// Customers get the same sum of tokens, and no more than their budget.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := millracetest.Start(t, millracetest.Mini)
	s.Advance(0) // stops the clock
	q, ctx := open(t, s.Client), t.Context()
	must(t, setBudget(ctx, q))
	for range 3 {
		_, err := ask(ctx, q, "acme", []byte("a long text"), 6_000, 2_000)
		must(t, err)
	}
	for range 12 {
		_, err := ask(ctx, q, "globex", []byte("a question"), 1_000, 1_000)
		must(t, err)
	}
	tokens := func(messages []fairqueue.Message) map[string]int {
		sums := map[string]int{}
		for _, m := range messages {
			sums[m.Tenant] += m.Cost
		}
		return sums
	}
	at := millracetest.RunUntilEmpty(t, q, nothing, millracetest.RunConfig{Clock: s})
	if got := tokens(at.Handled); got["acme"] != 16_000 || got["globex"] != 20_000 {
		t.Errorf("at once %v tokens are used, want what fits into 20,000 for each", got)
	}
	later := millracetest.RunUntilEmpty(t, q, nothing, millracetest.RunConfig{Clock: s, Within: 10 * time.Second})
	if got := tokens(later.Handled); got["acme"] != 8_000 || got["globex"] != 4_000 || later.Waiting != 0 {
		t.Errorf("then %v tokens are used in ten seconds, and %d messages wait; want the rest", got, later.Waiting)
	}
}

// A schedule that each replica sets has one message for each tick.
func TestCron(t *testing.T) {
	t.Parallel()
	s := millracetest.Start(t, millracetest.Mini)
	q, ctx := open(t, s.Client), t.Context()
	must(t, setSchedules(ctx, q), setSchedules(ctx, q), setSchedules(ctx, q))
	zone, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	got := millracetest.RunUntilEmpty(t, q, nothing, millracetest.RunConfig{Clock: s, Within: 16 * 24 * time.Hour})
	if n := len(got.Handled); n < 2 || n > 3 {
		t.Errorf("sixteen days have %d messages, want one for each Monday", n)
	}
	for _, m := range got.Handled {
		at, err := time.Parse(time.RFC3339, m.Headers[fairqueue.HeaderTick])
		if local := at.In(zone); err != nil || local.Weekday() != time.Monday || local.Format(time.TimeOnly) != "08:30:00" || m.Tenant != "acme" {
			t.Errorf("there is a message of %s for %s, %v, want Mondays at half past eight", m.Tenant, m.Headers[fairqueue.HeaderTick], err)
		}
	}
}

// The report is made once a night: by another call if it fails.
func TestNightly(t *testing.T) {
	t.Parallel()
	s := millracetest.Start(t, millracetest.Mini)
	locker, err := lease.New(s.Client, lease.Config{})
	must(t, err)
	night, err := cron.Parse("0 3 * * *", "Europe/Berlin")
	must(t, err)
	made, broken := 0, errors.New("the printer is out of paper")
	report := func(context.Context) error {
		if made++; made == 1 {
			return broken
		}
		// Another replica calls meanwhile.
		return nightly(t.Context(), locker, night, func(context.Context) error { t.Error("two replicas make the report"); return nil })
	}
	for i, want := range []error{broken, nil, nil, nil} {
		if err := nightly(t.Context(), locker, night, report); !errors.Is(err, want) {
			t.Errorf("call %d = %v, want %v", i+1, err, want)
		}
	}
	if made != 2 {
		t.Errorf("the report was begun %d times in the first night, want 2", made)
	}
	s.Advance(25 * time.Hour)
	if err := nightly(t.Context(), locker, night, report); err != nil || made != 3 {
		t.Errorf("in the next night %v, and it was begun %d times in all, want 3", err, made)
	}
}

// Callers of two processes that come together have one computation.
func TestCache(t *testing.T) {
	t.Parallel()
	client, ctx := millracetest.Redis(t), t.Context()
	var computed atomic.Int64
	compute := func(_ context.Context, quarter string) (Report, error) {
		return Report{quarter, int(computed.Add(1))}, nil
	}
	one, err := newSite(ctx, client, compute)
	must(t, err)
	other, err := newSite(ctx, client, compute)
	must(t, err)
	all := func(rows int) {
		t.Helper()
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				got, err := []*site{one, other}[i%2].report(ctx, "2026/q3")
				if want := (Report{"2026/q3", rows}); err != nil || got != want {
					t.Errorf("report = %+v, %v, want %+v", got, err, want)
				}
			})
		}
		callers.Wait()
	}
	all(1)
	must(t, one.changed(ctx, "2026/q3"))
	all(2)
}

// The end comes after all pages, once, also when the writer repeats itself; it knows which pages died.
func TestBatch(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"all pages are converted": false, "a page dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, ctx := open(t, millracetest.Redis(t)), t.Context()
			kept := job{customer: "acme", document: "report", pages: 3}
			store := func(_ context.Context, j *job) error { kept = *j; return nil }
			for range 2 { // the second after a crash
				j := kept
				must(t, fanOut(ctx, q, &j, store))
			}
			var did []string
			c := converter{
				convert: func(_ context.Context, page string) error {
					did = append(did, page)
					if dies && page == "report page 2" {
						return fairqueue.NoRetry(errors.New("no such font"))
					}
					return nil
				},
				join: func(_ context.Context, document string) error { did = append(did, "join "+document); return nil },
				complain: func(_ context.Context, document, dead string) error {
					did = append(did, document+" lacks "+dead)
					return nil
				},
			}
			millracetest.RunUntilEmpty(t, q, c.handle, millracetest.RunConfig{})
			want := []string{"report page 1", "report page 2", "report page 3", "join report"}
			if dies {
				want[3] = "report lacks 1"
			}
			if !slices.Equal(did, want) {
				t.Errorf("the handler did %q, want %q", did, want)
			}
		})
	}
}
