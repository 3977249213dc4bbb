package survey

import "time"

// samples is how many samples a history has at most: an hour's.
const samples = int(time.Hour / idleInterval)

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

// row returns where to write a sample of that time, in Unix milliseconds.
func (h *history) row(at int64) []float64 {
	place := len(h.times)
	if place < samples {
		h.times = append(h.times, at)
		h.values = append(h.values, make([]float64, len(h.columns))...)
	} else {
		place = h.oldest
		h.oldest = (h.oldest + 1) % samples
		h.times[place] = at
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
