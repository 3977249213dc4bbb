package steal

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace"
)

// mill is a model of upkeep: garbage falls due in queues, one enlistment in four
// recruits, and a slice removes a few pieces. Both arrive as Poisson processes,
// so it is enough to draw which of them comes next.
type mill struct {
	enlistments float64   // a second
	garbage     float64   // pieces a second
	slice       int       // pieces a slice removes
	weights     []float64 // of the queues: how much of the garbage falls into each
	indexed     bool      // slices take due work wherever it is, not from a random queue
}

const millRate = 0.25

// run returns the mean backlog over the first half of some seconds and over the
// second half.
func (m mill) run(t *testing.T, seed uint64, seconds float64) (first, second float64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	cumulated := make([]float64, len(m.weights))
	sum := 0.0
	for i, w := range m.weights {
		sum += w
		cumulated[i] = sum
	}
	queues, backlog := make([]int, len(m.weights)), 0
	r := New(Config{})
	r.random = seeded(seed)
	install(t, r, millRate, millrace.Job{Name: "mill", Slice: func(context.Context) (millrace.Progress, error) {
		taken := min(m.slice, backlog)
		if !m.indexed {
			q := random.IntN(len(queues))
			taken = min(m.slice, queues[q])
			queues[q] -= taken
		}
		backlog -= taken
		return millrace.Worked, nil
	}})
	var area [2]float64
	events := int(seconds * (m.enlistments + m.garbage))
	for i := range events {
		area[i*2/events] += float64(backlog)
		if random.Float64()*(m.enlistments+m.garbage) < m.enlistments {
			r.Enlist(t.Context())
			continue
		}
		u, q := random.Float64()*sum, 0
		if !m.indexed {
			for low, high := 0, len(cumulated)-1; low < high; q = low {
				if middle := (low + high) / 2; u < cumulated[middle] {
					high = middle
				} else {
					low = middle + 1
				}
			}
		}
		queues[q]++
		backlog++
	}
	half := float64(events) / 2
	return area[0] / half, area[1] / half
}

// closedForm is the mean backlog of n queues that share visits evenly, from
// M/M^[k]/1: r0/(1-r0) each, with r0 the root in (0, 1) of v x^(k+1) - (g+v) x + g.
func closedForm(visits, garbage float64, k, n int) float64 {
	v, g := visits/float64(n), garbage/float64(n)
	low, high := 0.0, 1-1e-9
	for range 100 {
		x := (low + high) / 2
		if v*math.Pow(x, float64(k+1))-(g+v)*x+g > 0 {
			low = x
		} else {
			high = x
		}
	}
	return float64(n) * low / (1 - low)
}

func even(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 1
	}
	return weights
}

// zipf weighs the i-th queue 1/i.
func zipf(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 1 / float64(i+1)
	}
	return weights
}

func TestRandomVictimsWaitAsTheClosedFormSays(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 100} {
		m := mill{enlistments: 60, garbage: 30, slice: 5, weights: even(n)}
		_, got := m.run(t, uint64(n), 2000)
		if want := closedForm(m.enlistments*millRate, m.garbage, m.slice, n); math.Abs(got/want-1) > 0.1 {
			t.Errorf("backlog of %d queues = %.1f, want %.1f within 10%%", n, got, want)
		}
	}
}

func TestOnlyAnIndexKeepsUpWithSkew(t *testing.T) {
	t.Parallel()
	m := mill{enlistments: 60, garbage: 30, slice: 5, weights: zipf(1000)}
	first, second := m.run(t, 1, 1000)
	if second < 2*first {
		t.Errorf("random victims: backlog %.0f, then %.0f; want it to grow without bound", first, second)
	}
	m.indexed = true
	_, got := m.run(t, 1, 1000)
	if want := closedForm(m.enlistments*millRate, m.garbage, m.slice, 1); math.Abs(got/want-1) > 0.1 {
		t.Errorf("index: backlog = %.2f, want %.2f within 10%%", got, want)
	}
}
