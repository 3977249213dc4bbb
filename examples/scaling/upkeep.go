package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// Millrace's defaults, and the size of the tables' samples.
const (
	sliceSize = 1600 // fields that a slice of expiry's reap job removes at most: 100 of each of 16 shards
	rounds    = 20   // slices that a recruit runs while they come back full
	floor     = 10 * time.Second
	processes = 10

	often = 10_000 // recruits that each row is measured over
)

// mill is a model of upkeep. Pieces fall due at random moments, such as fields of
// hashes that expire; moments that programs give away come at random, too, and a
// few of them are recruited to remove due pieces.
type mill struct {
	moments float64 // a second, of all processes together
	rate    float64 // the chance of each to be recruited
	garbage float64 // pieces that fall due in a second
	slice   int     // pieces that a recruit removes at most

	// With piles, a recruit looks into one of them that it picks at random, as
	// into one of so many hashes; weights say how much of the garbage each gets.
	// Without, pieces are removed in the order in which they fell due, as by an index.
	weights []float64

	floor time.Duration // a process without a recruit for so long runs a slice; 0 for none
}

// recruits returns how many recruits there are in a second, without the floor.
func (m mill) recruits() float64 { return m.moments * m.rate }

// backlog is the result of a run.
type backlog struct {
	overdue     []time.Duration // for how long each piece was due when it was removed, sorted
	idle        float64         // the share of recruits that found nothing
	half, whole int             // how many pieces were due after half of the recruits, and after all
}

func (b backlog) mean() time.Duration {
	sum := 0.0
	for _, d := range b.overdue {
		sum += d.Seconds()
	}
	return time.Duration(sum / float64(len(b.overdue)) * float64(time.Second))
}

// run lets time pass until so many recruits have come. The first tenth does not
// count.
func (m mill) run(visits int) backlog {
	const never = time.Duration(math.MaxInt64)
	random := rand.New(rand.NewPCG(17, uint64(visits)))
	after := func(now time.Duration, perSecond float64) time.Duration {
		if perSecond == 0 {
			return never
		}
		return now + time.Duration(random.ExpFloat64()/perSecond*float64(time.Second))
	}
	piles := make([][]time.Duration, max(1, len(m.weights)))
	bounds, sum := make([]float64, len(m.weights)), 0.0
	for i, w := range m.weights {
		sum += w
		bounds[i] = sum
	}
	pick := func() int { // the pile that a piece falls into
		return min(len(piles)-1, sort.SearchFloat64s(bounds, random.Float64()*sum))
	}

	var out backlog
	left, idle, counted := 0, 0, 0
	visit := func(n int, now time.Duration) {
		pile := 0
		if m.weights != nil {
			pile = random.IntN(len(piles))
		}
		taken := min(m.slice, len(piles[pile]))
		if n >= visits/10 {
			counted++
			for _, due := range piles[pile][:taken] {
				out.overdue = append(out.overdue, now-due)
			}
			if taken == 0 {
				idle++
			}
		}
		piles[pile], left = piles[pile][taken:], left-taken
		if n+1 == visits/2 {
			out.half = left
		}
	}

	floors := newFloors(m.floor, random)
	recruit, piece := after(0, m.recruits()), after(0, m.garbage)
	for n := 0; n < visits; {
		switch look := floors.next(); {
		case piece <= recruit && piece <= look:
			pile := pick()
			piles[pile], left = append(piles[pile], piece), left+1
			piece = after(piece, m.garbage)
		case recruit <= look:
			floors.ran(random.IntN(processes), recruit)
			visit(n, recruit)
			recruit, n = after(recruit, m.recruits()), n+1
		default:
			if floors.look() {
				visit(n, look)
				n++
			}
		}
	}
	slices.Sort(out.overdue)
	out.idle, out.whole = float64(idle)/float64(counted), left
	return out
}

// floors is the floor of each process: every eighth to quarter of its time it looks
// whether anything was run for as long as that, as steal.Recruiter.Run does.
type floors struct {
	floor  time.Duration
	random *rand.Rand
	looks  []time.Duration // when each looks next
	last   []time.Duration // when each ran a slice
}

func newFloors(floor time.Duration, random *rand.Rand) *floors {
	f := &floors{floor: floor, random: random}
	if floor == 0 {
		return f
	}
	for range processes {
		f.looks = append(f.looks, f.pause())
		f.last = append(f.last, -time.Duration(random.Int64N(int64(floor))))
	}
	return f
}

func (f *floors) pause() time.Duration {
	return f.floor/8 + time.Duration(f.random.Int64N(int64(f.floor/8)))
}

// next returns when the next process looks.
func (f *floors) next() time.Duration {
	if f.floor == 0 {
		return math.MaxInt64
	}
	return slices.Min(f.looks)
}

// look is the look of that process. It reports whether it runs a slice.
func (f *floors) look() bool {
	now := f.next()
	process := slices.Index(f.looks, now)
	f.looks[process] = now + f.pause()
	if now-f.last[process] < f.floor {
		return false
	}
	f.last[process] = now
	return true
}

// ran notes that a process was recruited.
func (f *floors) ran(process int, now time.Duration) {
	if f.floor > 0 {
		f.last[process] = now
	}
}

// waiting is the closed form for the mean time that a piece is due, when piles
// share recruits and garbage evenly: a queue M/M/1 with service in batches. With r
// the root of v r^(k+1) - (g+v) r + g between 0 and 1, a pile has r/(1-r) pieces.
func (m mill) waiting() time.Duration {
	piles := float64(max(1, len(m.weights)))
	v, g := m.recruits()/piles, m.garbage/piles
	low, high := 0.0, 1-1e-12
	for range 200 {
		r := (low + high) / 2
		if v*math.Pow(r, float64(m.slice+1))-(g+v)*r+g > 0 {
			low = r
		} else {
			high = r
		}
	}
	return time.Duration(low / (1 - low) / g * float64(time.Second))
}

// tail is how long a share p of the pieces waits at most, when a recruit removes
// all that is due: the time to the next recruit.
func (m mill) tail(p float64) time.Duration {
	return time.Duration(-math.Log1p(-p) / m.recruits() * float64(time.Second))
}

// hashes is the case of hash_overdue_p99 in docs/BENCHMARKS.md: 300 fields expire
// in a second, and 5,000 reads give a moment away.
var hashes = mill{moments: 5000, rate: 0.003, garbage: 300, slice: sliceSize * rounds}

func rateTable() table {
	t := table{title: "5,000 moments a second, 300 fields expire in one: for how long they are overdue, by the rate. No floor."}
	t.row("rate", "recruits", "mean", "formula", "p99", "formula", "p99.9", "found nothing", "formula")
	for _, rate := range []float64{0.0003, 0.001, 0.003, 0.01, 0.03} {
		m := hashes
		m.rate = rate
		b := m.run(often)
		t.row(fmt.Sprint(rate), fmt.Sprintf("%.3g/s", m.recruits()), lasting(b.mean()), lasting(m.waiting()),
			lasting(quantile(b.overdue, 0.99)), lasting(m.tail(0.99)), lasting(quantile(b.overdue, 0.999)),
			fmt.Sprintf("%.1f%%", 100*b.idle), fmt.Sprintf("%.1f%%", 100*m.recruits()/(m.recruits()+m.garbage)))
	}
	return t
}

// trafficTable is about nights: the rate stays, the moments go.
func trafficTable() table {
	t := table{title: fmt.Sprintf("The same at a rate of 0.003, by the traffic; garbage in proportion. With a floor of %d s in each of %d processes, and without.",
		int(floor.Seconds()), processes)}
	t.row("moments", "without: p99", "p99.9", "longest", "with: p99", "p99.9", "longest")
	for _, moments := range []float64{50_000, 5000, 500, 50, 5, 0} {
		m := hashes
		m.moments, m.garbage = moments, max(0.3, moments*0.06)
		cells := []string{grouped(int(moments)) + "/s"}
		for _, f := range []time.Duration{0, floor} {
			if m.floor = f; m.recruits() == 0 && f == 0 {
				cells = append(cells, "never", "never", "never")
				continue
			}
			b := m.run(often)
			cells = append(cells, lasting(quantile(b.overdue, 0.99)), lasting(quantile(b.overdue, 0.999)), lasting(b.overdue[len(b.overdue)-1]))
		}
		t.row(cells...)
	}
	return t
}

// victimTable is why there is an index: the original picks a hash at random and
// removes five fields of it.
func victimTable() table {
	t := table{title: "5,000 moments a second, rate 0.003, 30 fields expire in a second, 5 are removed at a time, 200,000 recruits."}
	t.row("which hash a slice looks at", "mean overdue", "formula", "p99", "overdue half-way", "at the end")
	const slice, recruits = 5, 200_000
	add := func(name, formula string, m mill) {
		b := m.run(recruits)
		t.row(name, lasting(b.mean()), formula, lasting(quantile(b.overdue, 0.99)), grouped(b.half), grouped(b.whole))
	}
	m := mill{moments: 5000, rate: 0.003, garbage: 30, slice: slice}
	add("the one that is due longest, and on to the next", lasting(m.waiting()), m)
	for _, n := range []int{10, 100, 1000, 10_000} {
		m.weights = slices.Repeat([]float64{1}, n)
		add("a random one of "+grouped(n), lasting(m.waiting()), m)
	}
	m.weights = nil
	for i := range 1000 {
		m.weights = append(m.weights, 1/math.Pow(float64(i+1), 0.8))
	}
	add("a random one of 1,000, some busier", "none", m)
	return t
}
