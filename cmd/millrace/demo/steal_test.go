package demo

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script/scripttest"
	"github.com/millrace/millrace/steal"
)

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// The checks can fail: sites that leave the sessions are found out.
func TestSessionsThatAreLeftAreFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL(), stealScene())
	cfg.child = self(lazy)
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if report.OK {
		t.Error("report is OK")
	}
	for _, c := range report.Scenes[0].Checks {
		if got, want := c.OK, c.Name != "all_collected"; got != want && c.Name != "backlog_bounded" {
			t.Errorf("check %s = %v, want %v: %s", c.Name, got, want, c.Sentence)
		}
	}
	wantEmpty(t, server.Client(t))
}

// soundSteal is a performance of the steal scene in which all went well.
func soundSteal() *stealPlay {
	site := steal.Stats{Enlisted: 10_000, Jobs: []steal.JobStats{
		{Name: collectJob, Rate: collectRate, Drawn: 30, Floored: 2, Worked: 25, Idle: 5, Aborted: steal.Aborts{Busy: 1, Error: 1}},
		{Name: signJob, Floored: 4, Worked: 4},
	}}
	other := site
	other.Jobs = append([]steal.JobStats(nil), site.Jobs...)
	p := &stealPlay{
		crowd:    newCrowd(nil),
		stats:    map[string]steal.Stats{"one": site, "other": other},
		overdue:  []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Second},
		late:     1,
		recruits: []recruit{{Request: 2, Took: 3 * time.Millisecond}},
		serving:  5 * time.Second,
		greatest: 30,
	}
	p.crowd.requests.Store(20_200)
	p.crowd.hits.Store(20_000)
	p.crowd.sessions.Store(3)
	p.crowd.took[1], p.crowd.took[2] = time.Millisecond, 2*time.Millisecond
	return p
}

func TestEachCheckOfTheStealSceneCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *stealPlay, jobs []steal.JobStats)
	}{
		{"", func(*stealPlay, []steal.JobStats) {}},
		{"share", func(p *stealPlay, _ []steal.JobStats) { p.crowd.hits.Store(100_000) }},
		{"share", func(p *stealPlay, _ []steal.JobStats) { p.crowd.hits.Store(1000) }},
		{"backlog_bounded", func(p *stealPlay, _ []steal.JobStats) { p.greatest = 167 }},
		{"all_collected", func(p *stealPlay, _ []steal.JobStats) { p.left = 1 }},
		{"floor", func(_ *stealPlay, jobs []steal.JobStats) { jobs[1].Floored, jobs[1].Worked = 0, 0 }},
		{"floor", func(_ *stealPlay, jobs []steal.JobStats) { jobs[1].Drawn, jobs[1].Idle = 1, 1 }},
		{"counted", func(_ *stealPlay, jobs []steal.JobStats) { jobs[0].Worked++ }},
		{"counted", func(_ *stealPlay, jobs []steal.JobStats) { jobs[1].Aborted.Timeout++ }},
	} {
		p := soundSteal()
		test.spoil(p, p.stats["one"].Jobs)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestFiguresOfTheStealScene(t *testing.T) {
	t.Parallel()
	seen := soundSteal().judge()
	got := map[string]any{}
	for _, f := range seen.Figures {
		got[f.Key] = f.Value
	}
	for key, want := range map[string]any{
		"enlisted": int64(20_000), "recruited": int64(64), "recruited_percent": 0.3,
		"worked": int64(50), "idle": int64(10), "aborted": int64(4), "collected": int64(3),
		"overdue_p99_ms": int64(1), "request_p99_us": int64(1000), "recruiting_request_p99_us": int64(2000), "upkeep_p99_us": int64(3000),
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
}

func TestChance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n           int64
		rate        float64
		least, most int64
	}{
		{0, 0.5, 0, 5},
		{100, 0.01, 0, 11},
		{100_000, 0.001, 45, 155},
	} {
		if least, most := chance(test.n, test.rate); least != test.least || most != test.most {
			t.Errorf("chance(%d, %v) = %d, %d, want %d, %d", test.n, test.rate, least, most, test.least, test.most)
		}
	}
}

func TestCollectTakesWhatIsDueLongest(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	s := newSite(part{client: client, name: redistest.Name(t)})
	ctx := t.Context()
	if err := s.begin(ctx, "young"); err != nil {
		t.Fatal(err)
	}
	// In milliseconds since 1970.
	add := client.B().Zadd().Key(dueKey(s.name)).ScoreMember().ScoreMember(1, "oldest").ScoreMember(2, "old")
	must(t, client.Do(ctx, add.Build()).Error())
	overdue, err := s.scripts.Run(ctx, "steal_collect", sessionsKey(s.name), "1")
	must(t, err)
	if n, first := overdue.Len(), overdue.Int(); n != 1 || first < time.Hour.Milliseconds() {
		t.Errorf("collected %d, %d ms late: %v; want one that is due for long", n, first, overdue.Err())
	}
	left, err := client.Do(ctx, client.B().Zrange().Key(dueKey(s.name)).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil || len(left) != 2 || left[0] != "old" || left[1] != "young" {
		t.Errorf("left = %q, %v, want what is due later", left, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFailed fails the test unless one check failed and no other; none if the
// name is empty.
func wantFailed(t *testing.T, checks []Check, name string) {
	t.Helper()
	if len(checks) == 0 {
		t.Error("nothing was checked")
	}
	for _, c := range checks {
		if got, want := c.OK, c.Name != name; got != want {
			t.Errorf("with a broken %q: check %s = %v, want %v: %s", name, c.Name, got, want, c.Sentence)
		}
	}
}
