package survey

import "time"

const (
	// samples is how many samples a history has at most: an hour's.
	samples = int(time.Hour / every)

	// early is how much earlier than due a sample may be, so that looks which come a
	// little early are not left out.
	early = every / 10
)

// history is the last samples of one subject. It is a ring: when it is full, the
// newest sample takes the place of the oldest.
type history struct {
	columns []heading
	times   []int64   // Unix milliseconds
	values  []float64 // a row for each time
	oldest  int       // its place
}

func newHistory(columns []heading) *history {
	return &history{
		columns: columns,
		times:   make([]int64, 0, samples),
		values:  make([]float64, 0, samples*len(columns)),
	}
}

// row returns where to write a sample of that time, or nil when the last one is too
// young for another. When the clock was set back all begins anew.
func (h *history) row(at time.Time) []float64 {
	ms := at.UnixMilli()
	if n := len(h.times); n > 0 {
		switch last := h.times[h.place(n-1)]; {
		case ms < last:
			h.times, h.values, h.oldest = h.times[:0], h.values[:0], 0
		case ms-last < (every - early).Milliseconds():
			return nil
		}
	}
	place := len(h.times)
	if place < samples {
		h.times = append(h.times, ms)
		h.values = append(h.values, make([]float64, len(h.columns))...)
	} else {
		place = h.oldest
		h.oldest = (h.oldest + 1) % samples
		h.times[place] = ms
	}
	return h.at(place)
}

// place returns where the sample of that number is, from the oldest on.
func (h *history) place(number int) int { return (h.oldest + number) % samples }

func (h *history) at(place int) []float64 {
	width := len(h.columns)
	return h.values[place*width : (place+1)*width]
}

// series returns the samples from the second on: the first has no rates.
func (h *history) series() Series {
	n := max(0, len(h.times)-1)
	s := Series{Times: make([]int64, n), Columns: make([]Column, len(h.columns))}
	for i, c := range h.columns {
		s.Columns[i] = Column{Name: c.name, Values: make([]float64, n)}
	}
	for i := range n {
		before, now := h.place(i), h.place(i+1)
		s.Times[i] = h.times[now] / 1000
		seconds := float64(h.times[now]-h.times[before]) / 1000
		for j, c := range h.columns {
			value := h.at(now)[j]
			if c.rate {
				value = max(0, value-h.at(before)[j]) / seconds
			}
			s.Columns[j].Values[i] = value
		}
	}
	return s
}
