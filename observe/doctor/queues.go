package doctor

import (
	"strings"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
)

// judgeQueues reports queues without readers, and tenants that hold others up.
func judgeQueues(queues []fairqueue.Stats) (all []Finding) {
	for _, q := range queues {
		for _, f := range diagnosis.OfQueue(q) {
			if f.Severity == diagnosis.Note {
				continue
			}
			hint := f.Advice
			if f.Command != "" {
				hint = strings.TrimSpace("Stop it with: millrace " + f.Command + ". " + f.Advice)
			}
			finding := warn("the queue "+q.Name+" "+f.Text, hint)
			finding.Check = "queues"
			all = append(all, finding)
		}
	}
	return all
}
