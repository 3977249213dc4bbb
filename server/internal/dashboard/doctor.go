package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/observe/doctor"
)

// doctorPage is the page of the doctor.
type doctorPage struct {
	heading

	At      time.Time
	Verdict string
	Worst   doctor.Severity // OK if there are only notes
	Parts   []doctor.Node   // what the findings are about, which may be no server
	Wrong   string
	Hint    string
}

func (d *Dashboard) examination(a *asked) (scene, error) {
	p := doctorPage{heading: heading{Title: "Doctor"}}
	if a.live { // nothing changes
		return func(*survey.View) body { return p }, nil
	}
	ttl := reportTTL
	if a.URL.Query().Has("again") {
		ttl = againTTL
	}
	report, at, err := d.doctor.get(a.Context(), ttl, d.examine)
	p.At = at
	if err != nil {
		p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
		return func(*survey.View) body { return p }, nil
	}
	p.Verdict = report.Verdict()
	for about, findings := range report.Parts() {
		p.Parts = append(p.Parts, doctor.Node{Addr: about, Findings: findings})
		for _, f := range findings {
			if f.Severity > doctor.Note {
				p.Worst = max(p.Worst, f.Severity)
			}
		}
	}
	return func(*survey.View) body { return p }, nil
}

func (d *Dashboard) examine(ctx context.Context) (doctor.Report, error) {
	return doctor.Examine(ctx, d.cfg.Client, doctor.Config{Fleet: d.cfg.Fleet})
}

const (
	// reportTTL is how long a report is shown before the servers are examined again.
	reportTTL = 10 * time.Second
	// againTTL applies if the reader asks for another examination.
	againTTL = time.Second
)

// lastReport caches the last report, so that several readers do not each examine all
// servers.
type lastReport struct {
	mu     sync.Mutex
	at     time.Time
	report doctor.Report
}

// get returns a report that is no older than ttl, and its time. Readers wait while one is
// being made.
func (l *lastReport) get(ctx context.Context, ttl time.Duration, examine func(ctx context.Context) (doctor.Report, error)) (doctor.Report, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < ttl {
		return l.report, l.at, nil
	}
	report, err := examine(ctx)
	if err != nil {
		return report, time.Time{}, err
	}
	l.report, l.at = report, time.Now()
	return l.report, l.at, nil
}
