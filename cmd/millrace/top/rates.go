package top

import (
	"time"

	"github.com/millrace/millrace/internal/survey"
)

// unknown is a rate that one look cannot tell.
const unknown = -1

// subject is an object that has rates.
type subject struct {
	kind survey.Kind
	name string
}

// count is the number of items that came and were done until an instant.
type count struct {
	at        time.Time // by the server's clock
	came, did int64
}

// rate is per second.
type rate struct{ in, out float64 }

// counts returns the counters of a look.
func counts(v *survey.View) map[subject]count {
	all := map[subject]count{}
	for _, q := range v.Queues {
		all[subject{survey.Queue, q.Name}] = count{q.At, q.Counters.Written, q.Counters.Acked}
	}
	for _, k := range v.Icks {
		all[subject{survey.Ick, k.Name}] = count{k.At, k.Counters.New, k.Counters.Committed}
	}
	for _, c := range v.Channels {
		all[subject{survey.Channel, c.Name}] = count{v.At, c.Counters.New, c.Counters.Committed}
	}
	return all
}

// rates returns the rates between two looks. A subject that is in one of them only, or whose
// count went back, has none.
func rates(last, next map[subject]count) map[subject]rate {
	all := map[subject]rate{}
	for of, n := range next {
		l, ok := last[of]
		elapsed := n.at.Sub(l.at).Seconds()
		if !ok || elapsed <= 0 || n.came < l.came || n.did < l.did {
			all[of] = rate{unknown, unknown}
			continue
		}
		all[of] = rate{float64(n.came-l.came) / elapsed, float64(n.did-l.did) / elapsed}
	}
	return all
}
