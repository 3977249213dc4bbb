package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/observe/doctor"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

func walkTotals(w *walker) {
	recruiter := steal.New(steal.Config{})
	w.must("upkeep.Install", upkeep.Install(recruiter, w.client))
	w.consume(func(ctx context.Context) error {
		return upkeep.Publish(ctx, recruiter, w.client, upkeep.PublishConfig{})
	}, func() {
		w.until("the process is counted", func() (bool, error) {
			totals, err := upkeep.ReadTotals(w, w.client)
			return totals.Processes > 0, err
		})
	})
}

func walkDoctor(w *walker) {
	report, err := doctor.Examine(w, w.client, doctor.Config{})
	w.must("Examine", err)
	for _, findings := range report.Parts() {
		for _, f := range findings {
			if f.Severity == doctor.Critical {
				w.must("doctor", fmt.Errorf("%s: %s", f.Check, f.Text))
			}
		}
	}
}

// walkScan looks for structures without an entry in the registry.
func walkScan(w *walker) {
	_, err := doctor.Examine(w, w.client, doctor.Config{Scan: true})
	w.must("Examine", err)
}

// walkSurvey reads the data of the dashboard and the metrics.
func walkSurvey(w *walker) {
	s, err := survey.New(survey.Config{Client: w.client})
	w.must("survey.New", err)
	view, err := s.Refresh(w)
	w.must("Refresh", err)
	if len(view.Troubles) > 0 {
		w.must("Refresh", fmt.Errorf("%v", view.Troubles))
	}
}

// walkIdle lets an idle connection check whether the server is still there.
func walkIdle(w *walker) {
	client := w.dial(func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = time.Millisecond })
	defer client.Close()
	w.must("EXISTS", client.Do(w, client.B().Exists().Key("mr:"+w.name).Build()).Error())
	w.until("the client asks", func() (bool, error) {
		stats, err := w.others("INFO", "commandstats").ToString()
		return strings.Contains(stats, "cmdstat_ping:"), err
	})
}

// walkGivenUp has a reader that waits be told to end.
func walkGivenUp(w *walker) {
	q := w.queue(fairqueue.Config{})
	waiting := func(want string) func() (bool, error) {
		return func() (bool, error) {
			clients, err := w.others("INFO", "clients").ToString()
			return strings.Contains(clients, "blocked_clients:"+want), err
		}
	}
	w.consume(func(ctx context.Context) error {
		_, err := q.Read(ctx, fairqueue.ReadConfig{Block: time.Hour})
		return err
	}, func() { w.until("the reader waits", waiting("1")) })
	w.until("nobody waits", waiting("0"))
}
