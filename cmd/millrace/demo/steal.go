package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/steal"
)

const (
	// collectRate is the chance of a moment to collect up to collectAtOnce sessions. One
	// request in newVisitors begins a session, which is over after sessionLife.
	collectRate   = 0.003
	collectAtOnce = 20
	newVisitors   = 40
	sessionLife   = 300 * time.Millisecond

	// stealFloor is how long a job may go without a run.
	stealFloor = time.Second

	// backlogRoom is a limit of the sessions due at once, as a multiple of those that fall due
	// between two recruits on average. Gaps are exponential: one of that length comes once in e^20
	// recruits.
	backlogRoom = 20

	// collectNothing is a sabotage in tests: recruits do not collect.
	collectNothing = "collect nothing"

	collectJob = "sessions.collect"
	signJob    = "site.sign"

	// Keys of the site. If there is a key closed, the web processes make no more requests.
	pages, sessions, dueSessions, closed = "pages", "sessions", "sessions:due", "closed"
)

func stealScene() chaos.Scene {
	return chaos.Scene{
		Name:  "steal",
		Shows: "a web site's upkeep is done by its own requests, and its garbage stays bounded",
		Load: "2 web processes answer requests from a cache. A request that finds its page has a moment to spare: " +
			"3 of 1,000 such moments collect sessions that are over. No other process does upkeep.",
		Accident: "Web processes are killed with SIGKILL. Then the requests stop.",
		Duration: 4 * time.Second,
		Play:     playSteal,
		Work:     serveSite,
	}
}

// siteReport counts a web process's requests since it began, and lists its new times.
type siteReport struct {
	Number                   int
	Requests, Hits, Sessions int64
	Stats                    steal.Stats
	Took, Recruiting, Upkeep []time.Duration // requests, those that recruited, and their upkeep
}

// sites is the sum of the web processes' reports.
type sites struct {
	siteReport

	collect, sign steal.JobStats
	signed        int  // processes whose floor ran the job with rate 0
	sound         bool // every recruit worked, was idle or aborted
}

func playSteal(ctx context.Context, p *chaos.Play) {
	p.Key(pages)
	open, due, stop := p.Key(sessions), p.Key(dueSessions), p.Key(closed)
	var mu sync.Mutex
	reports := map[int]siteReport{}
	var times siteReport
	chaos.Hear(p, func(r siteReport) {
		mu.Lock()
		defer mu.Unlock()
		reports[r.Number] = r
		times.Took, times.Recruiting, times.Upkeep = append(times.Took, r.Took...), append(times.Recruiting, r.Recruiting...), append(times.Upkeep, r.Upkeep...)
	})
	sum := func() sites {
		mu.Lock()
		defer mu.Unlock()
		all := sites{siteReport: times, sound: true}
		for _, r := range reports {
			all.Requests, all.Hits, all.Sessions = all.Requests+r.Requests, all.Hits+r.Hits, all.Sessions+r.Sessions
			all.Stats.Enlisted += r.Stats.Enlisted
			for _, j := range r.Stats.Jobs {
				all.sound = addJob(map[string]*steal.JobStats{collectJob: &all.collect, signJob: &all.sign}[j.Name], j) && all.sound
				if j.Name == signJob && j.Floored > 0 {
					all.signed++
				}
			}
		}
		return all
	}
	var backlog, most, left int64
	look := func(ctx context.Context, doing string) {
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		backlog = must.Get(p.Client.Do(ctx, p.Client.B().Zcount().Key(due).Min("-inf").Max(now).Build()).AsInt64())
		left = must.Get(p.Client.Do(ctx, p.Client.B().Hlen().Key(open).Build()).AsInt64())
		all := sum()
		p.Show(doing, all.Requests, "requests", all.Sessions, "sessions", all.collect.Recruited(), "recruited", backlog, "overdue", p.Kills, "workers killed")
	}

	began := time.Now()
	p.Start(2)
	p.Watch(ctx, func(ctx context.Context) bool { // on a busy machine they start late
		look(ctx, "web processes start")
		return sum().Sessions > 0
	})
	p.WatchKilling(ctx, time.Now().Add(p.Duration), func(ctx context.Context) {
		look(ctx, "requests do the upkeep")
		most = max(most, backlog)
	})
	must.Do(p.Client.Do(ctx, p.Client.B().Set().Key(stop).Value("1").Build()).Error())
	serving, atEnd := time.Since(began), backlog
	p.Note("the requests stopped: a timer in each process, the floor, collects the rest")
	p.Drain(ctx, func(ctx context.Context) int {
		look(ctx, "there are no requests")
		return int(left) + max(0, 2-sum().signed)
	})
	p.Dismiss(ctx)

	all := sum()
	collect, recruited, aborted := all.collect, all.collect.Recruited(), all.collect.Aborted
	checkShare(p, "collect", collect.Drawn, all.Hits, collectRate)
	bound := int64(math.Floor(backlogRoom / (newVisitors * collectRate)))
	p.Check("backlog_bounded", most <= bound, "at most %v sessions were overdue; allowed are %v, %v times what falls due between two recruits", most, bound, backlogRoom)
	p.Check("all_collected", left == 0 && all.Sessions > 0, "every session was collected, the last ones by the floor: %v of %v are left", left, all.Sessions)
	p.Check("floor", all.signed >= 2 && all.sign.Drawn == 0, "the job with rate 0 was never drawn, and the floor ran it %v times in %v processes", all.sign.Floored, all.signed)
	p.Check("counted", all.sound && recruited > 0, "every recruit worked, was idle or aborted: %v + %v + %v = %v", collect.Worked, collect.Idle, aborted, recruited)

	p.Figure("requests", chaos.PerSecond(all.Requests, serving), chaos.N("requests", all.Requests))
	p.Figure("  found their page: moments", chaos.Share("", all.Hits, all.Requests).Text, chaos.N("hits", all.Hits))
	p.Figure("moments, as the recruiters estimate", "from one in 64", chaos.N("enlisted", int64(all.Stats.Enlisted)))
	jobFigures(p, "recruited to collect sessions", "sessions to collect", collect, all.Hits)
	p.Figure("sessions begun", chaos.Text("each is over after %v", sessionLife), chaos.N("sessions", all.Sessions))
	p.Figure("sessions overdue at most", "", chaos.N("greatest_backlog", most))
	p.Figure("sessions overdue at the last request", "", chaos.N("backlog_at_end", atEnd))
	p.Figure("time of a request (99%)", "median "+chaos.Us("", must.Quantile(all.Took, 0.5)).Text, chaos.Us("request_p99_us", must.Quantile(all.Took, 0.99)))
	p.Figure("  of one that recruited (99%)", "upkeep comes after it", chaos.Us("recruiting_request_p99_us", must.Quantile(all.Recruiting, 0.99)))
	p.Figure("time of the upkeep (99%)", "median "+chaos.Us("", must.Quantile(all.Upkeep, 0.5)).Text, chaos.Us("upkeep_p99_us", must.Quantile(all.Upkeep, 0.99)))
	p.Figure("workers killed", "another one started each time", chaos.N("kills", p.Kills))
}

// addJob adds up the outcomes of a job's recruits, and reports whether the numbers add up.
func addJob(sum *steal.JobStats, j steal.JobStats) (sound bool) {
	sum.Drawn, sum.Floored = sum.Drawn+j.Drawn, sum.Floored+j.Floored
	sum.Worked, sum.Idle = sum.Worked+j.Worked, sum.Idle+j.Idle
	sum.Aborted += j.Aborted
	return j.Recruited() == j.Worked+j.Idle+j.Aborted
}

// checkShare checks how many moments were drawn: with 5 standard deviations chance is wrong
// about once in a million runs.
func checkShare(p *chaos.Play, what string, drawn, moments int64, rate float64) {
	mean := float64(moments) * rate
	off := 5*math.Sqrt(mean) + 5
	low, high := int64(math.Ceil(max(0, mean-off))), int64(mean+off)
	p.Check("share", drawn >= low && drawn <= high, "%v of %v moments were drawn to %s, at a rate of %s: chance allows %v to %v",
		drawn, moments, what, fmt.Sprintf("%.1f%%", 100*rate), low, high)
}

// jobFigures shows the outcomes of a job's recruits.
func jobFigures(p *chaos.Play, label, found string, job steal.JobStats, moments int64) {
	p.Figure(label, chaos.Text("%v drawn, %v by the floor", job.Drawn, job.Floored), chaos.N("recruited", job.Recruited()))
	p.Figure("  drawn, of all moments", "", chaos.Share("recruited_percent", job.Drawn, moments))
	p.Figure("  found "+found, "", chaos.N("worked", job.Worked))
	p.Figure("  found none", "", chaos.N("idle", job.Idle))
	p.Figure("  aborted", "", chaos.N("aborted", job.Aborted))
}

// site is the worker: a web process whose requests do the upkeep.
type site struct {
	*chaos.Worker

	recruiter *steal.Recruiter
	mu        sync.Mutex
	report    siteReport
}

// requestKey is the key of a request's own time in its context.
type requestKey struct{}

// OnRecruit notes how long a slice took, and that its request recruited.
func (s *site) OnRecruit(ctx context.Context, end millrace.Recruited) {
	if took, ok := ctx.Value(requestKey{}).(*time.Duration); ok && end.Rounds > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.report.Recruiting, s.report.Upkeep = append(s.report.Recruiting, *took), append(s.report.Upkeep, end.Took)
	}
}

func serveSite(ctx context.Context, w *chaos.Worker) error {
	s := &site{Worker: w}
	s.recruiter = steal.New(steal.Config{Budget: time.Second, Floor: stealFloor, Hooks: []millrace.Hook{s}})
	sign := func(context.Context) (millrace.Progress, error) { return millrace.Worked, nil }
	must.Do(s.recruiter.Install(millrace.Job{Name: collectJob, Slice: s.collect}, collectRate))
	must.Do(s.recruiter.Install(millrace.Job{Name: signJob, Slice: sign}, 0))
	handler := steal.Middleware(s.recruiter)(http.HandlerFunc(s.serve))
	requests, stop := context.WithCancel(ctx)
	defer stop()
	go s.awaitClosing(requests, stop)
	go func() { _ = s.recruiter.Run(ctx) }() // it ends with the context
	return w.Serve(ctx, requests, 8, chaos.About(4*time.Millisecond),
		func(ctx context.Context) error { return s.visit(ctx, handler) }, s.since, closeRecruiter(s.recruiter))
}

// awaitClosing ends the requests when the site is closed.
func (s *site) awaitClosing(ctx context.Context, stop func()) {
	for retry.Sleep(ctx, 20*time.Millisecond) {
		if n, err := s.Client.Do(ctx, s.Client.B().Exists().Key(chaos.Key(s.Name, closed)).Build()).AsInt64(); err == nil && n == 1 {
			stop()
		}
	}
}

// closeRecruiter ends a recruiter; a call that hangs ends with the process.
func closeRecruiter(r *steal.Recruiter) func(context.Context) {
	return func(ctx context.Context) { _ = r.Close(ctx) }
}

// since returns the report, and begins a new one.
func (s *site) since() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Number, r.Stats = s.Number, s.recruiter.Stats()
	s.report.Took, s.report.Recruiting, s.report.Upkeep = nil, nil, nil
	return r
}

// visit makes one request, and fails unless it is answered.
func (s *site) visit(ctx context.Context, handler http.Handler) error {
	var took time.Duration
	req, err := http.NewRequestWithContext(context.WithValue(context.WithoutCancel(ctx), requestKey{}, &took), http.MethodGet,
		"/"+strconv.Itoa(mathrand.IntN(200)), http.NoBody)
	if err != nil {
		return err
	}
	answer, began := &page{header: http.Header{}}, time.Now()
	handler.ServeHTTP(answer, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Requests++
	s.report.Took = append(s.report.Took, time.Since(began))
	if answer.code != 0 {
		return fmt.Errorf("the site answered with %d: %s", answer.code, answer.body.String())
	}
	return nil
}

// page is the answer to a request.
type page struct {
	header http.Header
	code   int
	body   strings.Builder
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(code int)        { p.code = code }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// serve answers with a page, from the cache if it is there. Now and then a visitor is new,
// and gets a session.
func (s *site) serve(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	ctx, client := req.Context(), s.Client
	isNew := mathrand.IntN(newVisitors) == 0
	text, err := client.Do(ctx, client.B().Hget().Key(chaos.Key(s.Name, pages)).Field(req.URL.Path).Build()).ToString()
	hit := err == nil
	if rueidis.IsRedisNil(err) {
		text = strings.Repeat("<p>A paragraph.</p>\n", 50)
		err = client.Do(ctx, client.B().Hset().Key(chaos.Key(s.Name, pages)).FieldValue().FieldValue(req.URL.Path, text).Build()).Error()
	}
	if isNew && err == nil {
		id, due := rand.Text(), float64(time.Now().Add(sessionLife).UnixMilli())
		for _, reply := range client.DoMulti(ctx, client.B().Zadd().Key(chaos.Key(s.Name, dueSessions)).ScoreMember().ScoreMember(due, id).Build(),
			client.B().Hset().Key(chaos.Key(s.Name, sessions)).FieldValue().FieldValue(id, "an empty basket").Build()) {
			err = cmp.Or(err, reply.Error())
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(text)) //nolint:gosec // a page of the demo, shown to no browser
	s.mu.Lock()
	if hit {
		s.report.Hits++
	}
	if isNew {
		s.report.Sessions++
	}
	s.mu.Unlock()
	if took, ok := ctx.Value(requestKey{}).(*time.Duration); ok {
		*took = time.Since(began)
	}
	if hit {
		s.recruiter.Enlist(ctx) // the fast exit: this request has a moment to spare
	}
}

// collect is a slice of upkeep: it removes some sessions that are over. The index goes last,
// so that a kill in between leaves nothing behind.
func (s *site) collect(ctx context.Context) (millrace.Progress, error) {
	if s.Sabotage == collectNothing {
		return millrace.Idle, nil
	}
	now, client, index := strconv.FormatInt(time.Now().UnixMilli(), 10), s.Client, chaos.Key(s.Name, dueSessions)
	due, err := client.Do(ctx, client.B().Zrangebyscore().Key(index).Min("-inf").Max(now).Limit(0, collectAtOnce).Build()).AsStrSlice()
	if err != nil || len(due) == 0 {
		return millrace.Idle, err
	}
	for _, reply := range client.DoMulti(ctx, client.B().Hdel().Key(chaos.Key(s.Name, sessions)).Field(due...).Build(),
		client.B().Zrem().Key(index).Member(due...).Build()) {
		err = cmp.Or(err, reply.Error())
	}
	if len(due) == collectAtOnce {
		return millrace.More, err
	}
	return millrace.Worked, err
}
