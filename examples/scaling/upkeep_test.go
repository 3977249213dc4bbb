package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

// within fails the test if got is further from want than a share of it.
func within(t *testing.T, what string, got, want time.Duration, share float64) {
	t.Helper()
	if math.Abs(got.Seconds()/want.Seconds()-1) > share {
		t.Errorf("%s = %v, want %v, and at most %.0f%% from it", what, got, want, 100*share)
	}
}

func TestOverdueIsAsTheFormulaSays(t *testing.T) {
	t.Parallel()
	for _, m := range []mill{
		{moments: 5000, rate: 0.003, garbage: 60, slice: sliceSize},
		{moments: 500, rate: 0.01, garbage: 4, slice: 1}, // nearly all that it can do
		{moments: 5000, rate: 0.003, garbage: 30, slice: 5},
		{moments: 5000, rate: 0.003, garbage: 30, slice: 5, weights: slices.Repeat([]float64{1}, 10)},
		{moments: 5000, rate: 0.003, garbage: 30, slice: 5, weights: slices.Repeat([]float64{1}, 100)},
	} {
		within(t, "the mean", m.run(6*often).mean(), m.waiting(), 0.05)
	}
}

func TestTailIsAsTheFormulaSays(t *testing.T) {
	t.Parallel()
	m := hashes
	m.garbage = 60
	b := m.run(3 * often)
	for _, p := range []float64{0.5, 0.99, 0.999} {
		within(t, "the tail", quantile(b.overdue, p), m.tail(p), 0.1)
	}
	if got, want := b.idle, m.recruits()/(m.recruits()+m.garbage); math.Abs(got/want-1) > 0.1 {
		t.Errorf("%.3f of the recruits found nothing, want %.3f, and at most 10%% from it", got, want)
	}
}

func TestRandomVictimsFallBehindWithSkew(t *testing.T) {
	t.Parallel()
	m := mill{moments: 5000, rate: 0.003, garbage: 30, slice: 5}
	for i := range 1000 {
		m.weights = append(m.weights, 1/math.Pow(float64(i+1), 0.8))
	}
	if b := m.run(10 * often); b.whole < 3*b.half/2 {
		t.Errorf("overdue half-way: %d, at the end: %d; want that to grow without bound", b.half, b.whole)
	}
	m.weights = nil
	if b := m.run(10 * often); b.whole > 100 {
		t.Errorf("with an index %d are overdue at the end, want 100 at most", b.whole)
	}
}

// TestFloorEndsTheWait: with any traffic, no piece waits for longer than a floor and the
// quarter of it that passes between looks; without a floor, some do.
func TestFloorEndsTheWait(t *testing.T) {
	t.Parallel()
	m := hashes
	m.garbage = 1
	for _, m.moments = range []float64{0, 5, 50} {
		m.floor = floor
		if got, want := longest(m.run(often/2)), floor+floor/4; got > want {
			t.Errorf("at %v moments a second the longest wait is %v, want %v at most", m.moments, got, want)
		}
		m.floor = 0
		if m.moments == 0 {
			continue
		}
		if got := longest(m.run(often / 2)); got < 2*floor {
			t.Errorf("at %v moments a second and without a floor the longest wait is %v, want more than %v", m.moments, got, 2*floor)
		}
	}
}

func longest(b backlog) time.Duration { return b.overdue[len(b.overdue)-1] }
