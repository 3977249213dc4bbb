package conformance

import (
	"slices"
	"testing"
)

// lossRow is a fault in a setting with its loss: a row of docs/LOSS.md.
type lossRow struct {
	name           string // of the subtest
	fault, setting string
	loses          loses
	code           string // of an error that a program sees in each run
	sees           string // by a program
	do             string // by its operator
	play           func(t *testing.T, l *steady)
}

// loses says which confirmed messages a row may lose.
type loses int

const (
	nothing loses = iota // no message
	atMost               // at most those that were confirmed after steady.seal
	late                 // some of those, and no other
	waiting              // some of all that waited
)

// TestLoss plays each fault under a load of confirmed writes, counts the loss, and checks that it is no more than docs/LOSS.md
// says. Rows that lose by design lose something in each run, so that the rows beside them show the worth of a setting.
func TestLoss(t *testing.T) {
	t.Parallel()
	results := newLossResults(t)
	for _, r := range lossRows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			l := newSteady(t)
			r.play(t, l)
			if t.Failed() {
				return
			}
			m := l.measure()
			results.add(r, m)
			t.Logf("%d of %d confirmed messages are lost, which were confirmed within %s; %d handled twice, %d of them acknowledged before; errors: %v",
				m.lost, m.confirmed, m.within, m.twice, m.again, m.codes)
			switch {
			case r.code != "" && !slices.Contains(m.codes, r.code):
				t.Errorf("calls ended with the errors %v, and none with %s", m.codes, r.code)
			case m.confirmed < 60:
				t.Errorf("%d messages were confirmed, want a load", m.confirmed)
			case r.loses == nothing && m.lost > 0:
				t.Errorf("%d of %d confirmed messages are lost, want none", m.lost, m.confirmed)
			case r.loses != waiting && m.sealedLost > 0:
				t.Errorf("%d lost messages were confirmed before what may be lost", m.sealedLost)
			case (r.loses == late || r.loses == waiting) && m.lost == 0:
				t.Error("nothing is lost: the row does not play its fault")
			}
		})
	}
}
