package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/doctor"
	"github.com/millrace/millrace/internal/survey"
)

// doctorPage is what the doctor found.
type doctorPage struct {
	heading

	At      time.Time
	Verdict string
	Tone    string
	Parts   []doctorPart
	Wrong   string
	Hint    string
}

// doctorPart is what was found of the fleet, of this host or of a server.
type doctorPart struct {
	About    string
	Findings []finding
}

type finding struct {
	doctor.Finding

	Tone string
}

// tones are the colours of findings.
var tones = map[doctor.Level]string{doctor.OK: "good", doctor.Note: "note", doctor.Warn: "warn", doctor.Fail: "bad"}

func (d *Dashboard) examination(a *asked) (scene, error) {
	p := doctorPage{heading: heading{Title: "Doctor"}}
	if a.live { // nothing of it changes
		return func(*survey.View) body { return p }, nil
	}
	life := prescriptionLife
	if a.URL.Query().Has("again") {
		life = againLife
	}
	report, at, err := d.doctor.ask(a.Context(), life, d.examine)
	p.At = at
	if err != nil {
		p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
		return func(*survey.View) body { return p }, nil
	}
	p.Verdict, p.Tone = report.Verdict(), "good"
	for about, findings := range report.Parts() {
		part := doctorPart{About: about}
		for _, f := range findings {
			if f.Level == doctor.Warn && p.Tone == "good" {
				p.Tone = "warn"
			}
			part.Findings = append(part.Findings, finding{f, tones[f.Level]})
		}
		p.Parts = append(p.Parts, part)
	}
	if !report.OK {
		p.Tone = "bad"
	}
	return func(*survey.View) body { return p }, nil
}

func (d *Dashboard) examine(ctx context.Context) (doctor.Report, error) {
	return doctor.Examine(ctx, d.cfg.Client, doctor.Config{Fleet: d.cfg.Fleet})
}

const (
	// prescriptionLife is for how long a report is shown again instead of asking anew.
	prescriptionLife = 10 * time.Second

	// againLife is for how long it is to somebody who asks for another one.
	againLife = time.Second
)

// physician remembers the last report, so that many who look at it do not each have
// all servers examined.
type physician struct {
	mu     sync.Mutex
	at     time.Time
	report doctor.Report
}

// ask returns a report that is no older than life, and when it is from. Those who
// come while one is being made wait for it.
func (p *physician) ask(ctx context.Context, life time.Duration, examine func(ctx context.Context) (doctor.Report, error)) (doctor.Report, time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < life {
		return p.report, p.at, nil
	}
	report, err := examine(ctx)
	if err != nil {
		return report, time.Time{}, err
	}
	p.report, p.at = report, time.Now()
	return p.report, p.at, nil
}
