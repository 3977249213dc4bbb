package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/steal"
)

const (
	nameField    = "name"    // it stays
	sessionField = "session" // it expires

	// renewBefore is how long before its end a session is renewed; one in renewEvery is.
	renewBefore = 30 * time.Millisecond
	renewEvery  = 4

	// Sabotages in tests: readers do not reap, or compare with a late clock.
	reapNothing = "reap nothing"
	lateClock   = "a clock that is late"
)

func expiryScene() chaos.Scene {
	return chaos.Scene{
		Name:  "expiry",
		Shows: "fields of hashes expire one by one, to the millisecond, and those who read remove what is over",
		Load: "Each visitor has a hash with a field that stays and a session that expires; one session in four is renewed just before. " +
			"2 worker processes read fields; a few of their reads remove expired fields.",
		Accident: "Worker processes are killed with SIGKILL.",
		Duration: 3500 * time.Millisecond,
		Play:     playExpiry,
		Work:     readVisitors,
	}
}

// visitors tells the scene and its workers when each session is over.
type visitors struct {
	N     int           // how many there are
	First time.Time     // when the first session is over
	Gap   time.Duration // between the ends of two sessions
	Pause time.Duration // of a reader, on average
	Rate  float64       // the chance of a moment to reap
	Clock serverClock
}

func (v *visitors) hash(i int) string   { return "visitor:" + strconv.Itoa(i) }
func (v *visitors) end(i int) time.Time { return v.First.Add(time.Duration(i) * v.Gap) }

// later is when a session is over that was renewed.
func (v *visitors) later(i int) time.Time { return v.end(i + v.N) }

// judge checks the result of a call that was made at asked and has just returned. The server
// read the session between the two: it may find one only if it was not over at first, and
// may miss one only if it is over now.
func (v *visitors) judge(end time.Time, found bool, asked time.Time) (late, early bool) {
	return found && !v.Clock.earliest(asked).Before(end), !found && v.Clock.latest(time.Now()).Before(end)
}

// serverClock bounds the time of the servers. They are Low to High ahead of this machine.
type serverClock struct {
	At        time.Time
	Low, High time.Duration
}

func (c serverClock) slack(at time.Time) time.Duration {
	return time.Millisecond + at.Sub(c.At).Abs()/2000 // clocks that are kept in step drift by that much
}
func (c serverClock) earliest(at time.Time) time.Time { return at.Add(c.Low - c.slack(at)) }
func (c serverClock) latest(at time.Time) time.Time   { return at.Add(c.High + c.slack(at)) }

// readClock asks the server of each shard for its time.
func readClock(ctx context.Context, client rueidis.Client, name string) serverClock {
	c := serverClock{At: time.Now(), Low: time.Hour, High: -time.Hour}
	for shard := range 16 {
		asked := time.Now()
		reply := must.Get(client.Do(ctx, client.B().Eval().Script("return redis.call('TIME')").Numkeys(1).Key(fmt.Sprintf("mr:hash:{%s/%d}", name, shard)).Build()).AsIntSlice())
		now := time.Unix(reply[0], reply[1]*1000)
		c.Low, c.High = min(c.Low, time.Until(now)), max(c.High, now.Sub(asked))
	}
	return c
}

// expiryReport counts a process's reads since it began, and lists its failures.
type expiryReport struct {
	Number                         int
	Reads, Hits, Over, Late, Early int64
	Failures                       []string
	Stats                          steal.Stats
}

// note counts a read of a session.
func (r *expiryReport) note(hash string, found, late, early bool) {
	switch {
	case late:
		r.Late++
		r.Failures = append(r.Failures, hash+": a session was found after its deadline")
	case early:
		r.Early++
		r.Failures = append(r.Failures, hash+": a session was missing before its deadline")
	case !found:
		r.Over++
	}
}

// expiryStats are the namespace's numbers between two moments.
type expiryStats struct {
	before, after    time.Time
	overdue, removed int64
	reads            int64
}

// expiryPlay is one performance.
type expiryPlay struct {
	*chaos.Play
	visitors

	hashes *expiry.Hashes
	stats  []expiryStats

	mu         sync.Mutex
	renewed    map[int]bool         // sessions that do not end as planned
	storedLate int64                // sessions that were over when they were stored
	reports    map[int]expiryReport // 0 is of the calls that renew
}

func playExpiry(ctx context.Context, play *chaos.Play) {
	p := &expiryPlay{Play: play, renewed: map[int]bool{}, reports: map[int]expiryReport{}}
	p.visitors = visitors{N: 5000, Gap: time.Second / 400, Pause: 3 * time.Millisecond, Rate: 0.003}
	cfg := expiry.Config{Logger: slog.New(slog.DiscardHandler)} // an imitation does not report its policy
	if p.Small {
		p.visitors = visitors{N: 150, Gap: time.Second / 30, Pause: 40 * time.Millisecond, Rate: 0.03}
		cfg.Shards = 2
	}
	p.hashes = must.Get(expiry.Open(ctx, p.Client, p.Name, cfg))
	p.Delete(func(ctx context.Context) (int, error) {
		h, err := expiry.Open(ctx, p.Client, p.Name, cfg)
		if err != nil {
			return 0, err
		}
		stats, err := h.Stats(ctx)
		return stats.Shards, cmp.Or(err, h.Delete(ctx))
	})
	chaos.Hear(play, func(r expiryReport) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reports[r.Number] = r
	})
	p.Clock = readClock(ctx, p.Client, p.Name)
	began := time.Now()
	p.store(ctx)
	loading := time.Since(began)
	p.Params = p.visitors
	p.Start(2)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	p.Go(func() error { return p.renew(serving) })
	p.Watch(ctx, func(ctx context.Context) bool { // on a busy machine they start late
		p.look(ctx)
		sum, _, _ := p.sum()
		return sum.Reads > 0
	})
	p.WatchKilling(ctx, time.Now().Add(p.Duration), p.look)
	stop()
	p.Drain(ctx, func(ctx context.Context) int { // until there is something to judge
		p.look(ctx)
		sum, job, _ := p.sum()
		return int(min(1, sum.Hits)*min(1, sum.Over)*min(1, job.Worked)) ^ 1
	})
	served := time.Since(began) - loading
	p.Dismiss(ctx)
	p.look(ctx)
	p.judgeAll(loading, served)
}

// store stores all visitors; the first sessions end while the last ones are stored.
func (p *expiryPlay) store(ctx context.Context) {
	numbers := make([]int, p.N)
	for i := range numbers {
		numbers[i] = i
	}
	set := func(ctx context.Context, i int, field string, cfg expiry.SetConfig) error {
		_, err := p.hashes.Set(ctx, p.hash(i), field, []byte(p.hash(i)), cfg)
		return err
	}
	began := time.Now()
	chaos.Parallel(ctx, numbers, func(ctx context.Context, i int) error { return set(ctx, i, nameField, expiry.SetConfig{}) })
	p.First = time.Now().Add(time.Since(began) + 300*time.Millisecond).Truncate(time.Millisecond)
	chaos.Parallel(ctx, numbers, func(ctx context.Context, i int) error {
		err := set(ctx, i, sessionField, expiry.SetConfig{Deadline: p.end(i)})
		if !p.Clock.latest(time.Now()).Before(p.end(i)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.storedLate++
		}
		return err
	})
}

// renew renews one session in four just before its end.
func (p *expiryPlay) renew(ctx context.Context) error {
	for i := 0; i < p.N; i += renewEvery {
		end := p.end(i)
		if !retry.Sleep(ctx, time.Until(end.Add(-renewBefore-p.Clock.High))) {
			return nil
		}
		asked := time.Now()
		set, err := p.hashes.Set(p.Context(), p.hash(i), sessionField, []byte(p.hash(i)),
			expiry.SetConfig{Deadline: p.later(i), IfExist: true})
		if err != nil {
			return err
		}
		late, early := p.judge(end, set, asked)
		p.mu.Lock()
		own := p.reports[0]
		own.note(p.hash(i), set, late, early)
		p.reports[0], p.renewed[i] = own, set
		p.mu.Unlock()
	}
	return nil
}

// look reads the statistics and shows progress.
func (p *expiryPlay) look(ctx context.Context) {
	before := p.Clock.earliest(time.Now())
	stats := must.Get(p.hashes.Stats(ctx))
	sum, job, _ := p.sum()
	p.stats = append(p.stats, expiryStats{
		before: before, after: p.Clock.latest(time.Now()),
		overdue: int64(stats.Overdue), removed: stats.Reaped + stats.Deleted, reads: sum.Reads,
	})
	p.Show("sessions end, and readers remove them", sum.Reads, "reads", job.Recruited(), "recruited",
		stats.Reaped, "reaped", stats.Overdue, "overdue", p.Kills, "workers killed")
}

// sum adds up the workers' reports and the scene's own calls.
func (p *expiryPlay) sum() (sum expiryReport, job steal.JobStats, sound bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sound = true
	for _, r := range p.reports {
		sum.Reads, sum.Hits, sum.Over = sum.Reads+r.Reads, sum.Hits+r.Hits, sum.Over+r.Over
		sum.Late, sum.Early = sum.Late+r.Late, sum.Early+r.Early
		sum.Failures = append(sum.Failures, r.Failures...)
		for _, j := range r.Stats.Jobs {
			sound = addJob(&job, j) && sound
		}
	}
	return sum, job, sound
}

// ended returns the ends of the sessions that are over at a time, in their order.
func (p *expiryPlay) ended(at time.Time) (ends []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.N {
		end := p.end(i)
		if p.renewed[i] {
			end = p.later(i)
		}
		if !end.After(at) {
			ends = append(ends, end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends
}

func (p *expiryPlay) judgeAll(loading, served time.Duration) {
	sum, job, sound := p.sum()
	for _, failure := range sum.Failures {
		p.Fail("%s", failure)
	}
	last := p.stats[len(p.stats)-1]
	ends := p.ended(last.after)
	expired, surely := int64(len(ends)), int64(len(p.ended(last.before)))-p.storedLate
	recruited := job.Recruited()
	var most, atFirst int64 // overdue; on a busy machine sessions end before workers read
	for i, s := range p.stats {
		most = max(most, s.overdue)
		if i == 0 || p.stats[i-1].reads == 0 { // up to the first look that finds reads
			atFirst = most
		}
	}
	p.Check("nothing_after_its_deadline", sum.Late == 0 && sum.Over > 0,
		"no session was found after its deadline: %v reads came after one, and %v found it", sum.Over+sum.Late, sum.Late)
	p.Check("nothing_missing_before_it", sum.Early == 0 && sum.Hits > 0,
		"no field was missing before its deadline: %v reads found theirs, and %v did not", sum.Hits, sum.Early)
	bound := atFirst + backlogRoom*(expired-atFirst)/max(1, recruited)
	p.Check("garbage_bounded", most <= bound, "at most %v fields were overdue; allowed are %v: those before the first read, and %v times what expires between two recruits", most, bound, backlogRoom)
	checkShare(p.Play, "reap", job.Drawn, sum.Hits, p.Rate)
	p.Check("recruits_counted", sound && recruited > 0, "every recruit worked, was idle or aborted: %v + %v + %v = %v", job.Worked, job.Idle, job.Aborted, recruited)
	p.Check("fields_counted", last.removed > 0 && last.removed <= expired && surely <= last.removed+last.overdue,
		"what expired was removed or is overdue: %v expired, %v removed, %v overdue in the end", expired, last.removed, last.overdue)

	stays := make([]time.Duration, len(ends)) // fields are removed in the order of their deadlines
	for i, at := 0, 0; i < len(ends); i++ {
		for at < len(p.stats)-1 && p.stats[at].removed <= int64(i) {
			at++
		}
		stays[i] = max(0, p.stats[at].after.Sub(ends[i]))
	}
	p.Figure("hashes", "one field stays, one expires", chaos.N("hashes", p.N))
	p.Figure("reads", chaos.PerSecond(sum.Reads, served), chaos.N("reads", sum.Reads))
	p.Figure("  found their field: moments", "", chaos.N("hits", sum.Hits))
	p.Figure("  came after the deadline", "and found nothing", chaos.N("reads_after_deadline", sum.Over))
	jobFigures(p.Play, "recruited to reap", "fields to reap", job, sum.Hits)
	p.Figure("sessions expired", "", chaos.N("expired", expired))
	p.Figure("sessions renewed just before", chaos.Text("%v at most", renewBefore), chaos.N("renewed", len(p.renewed)))
	p.Figure("fields reaped", "", chaos.N("reaped", last.removed))
	p.Figure("fields overdue at most", "", chaos.N("greatest_overdue", most))
	p.Figure("fields overdue at the end", "", chaos.N("overdue_at_end", last.overdue))
	p.Figure("overdue for (median)", "", chaos.Ms("overdue_p50_ms", must.Quantile(stays, 0.5)))
	p.Figure("overdue for (99%)", "", chaos.Ms("overdue_p99_ms", must.Quantile(stays, 0.99)))
	p.Figure("storing the hashes", "", chaos.Ms("loading_ms", loading))
	p.Figure("workers killed", "another one started each time", chaos.N("kills", p.Kills))
}

// readVisitors is a worker: it reads, and a few of its reads remove expired sessions.
func readVisitors(ctx context.Context, w *chaos.Worker) error {
	var v visitors
	w.Params(&v)
	if w.Sabotage == lateClock {
		v.First = v.First.Add(-time.Second)
	}
	recruiter := steal.New(steal.Config{Budget: time.Second, Floor: stealFloor})
	hashes := must.Get(expiry.Open(ctx, w.Client, w.Name, expiry.Config{Enlister: recruiter, Logger: slog.New(slog.DiscardHandler)}))
	job := hashes.Jobs()[0]
	if w.Sabotage == reapNothing {
		job.Slice = func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil }
	}
	must.Do(recruiter.Install(job, v.Rate))
	go func() { _ = recruiter.Run(ctx) }() // it ends with the context
	var mu sync.Mutex
	r := expiryReport{Number: w.Number}
	return w.Serve(ctx, ctx, 8, chaos.About(v.Pause),
		func(ctx context.Context) error { return v.read(ctx, hashes, &mu, &r) },
		func() any {
			mu.Lock()
			defer mu.Unlock()
			now := r
			now.Failures, now.Stats = slices.Clone(r.Failures), recruiter.Stats()
			return now
		}, closeRecruiter(recruiter))
}

// read reads one field: a name, or a session that ends about now.
func (v *visitors) read(ctx context.Context, hashes *expiry.Hashes, mu *sync.Mutex, r *expiryReport) error {
	i, field, end := rand.IntN(v.N), nameField, time.Now().Add(time.Hour)
	if rand.IntN(10) < 4 {
		edge := int(time.Since(v.First)/v.Gap) - 20 + rand.IntN(40)
		i, field = min(max(0, edge), v.N-1), sessionField
		end = v.end(i)
	}
	asked := time.Now()
	value, _, err := hashes.Get(ctx, v.hash(i), field)
	if ctx.Err() != nil {
		return nil // a call that was cut off says nothing
	}
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		return err
	}
	found := err == nil && string(value) == v.hash(i)
	late, early := v.judge(end, found, asked)
	if i%renewEvery == 0 {
		late = false // it may have been renewed
	}
	mu.Lock()
	defer mu.Unlock()
	r.Reads++
	if err == nil {
		r.Hits++
	}
	r.note(v.hash(i), found, late, early)
	return nil
}
