package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/scatter"
)

// soundScatter is a performance of the scatter scene in which all went well.
func soundScatter() *scatterPlay {
	p := &scatterPlay{
		missing: []string{"1"}, partial: 60, partialE: millrace.ErrPartial, behind: 20, begun: 80,
		sum: []int64{100, 100, 100}, apart: []int64{25, 25, 25, 25},
	}
	p.left = []scatter.Left{{Flushes: 10}, {Flushes: 10}, {Flushes: 10}, {Flushes: 5, Empty: true}}
	p.written.Store(100)
	for i := range eventsKept {
		p.newest = append(p.newest, scatter.Entry{At: time.UnixMilli(int64(1000 - i))})
	}
	return p
}

func TestEachCheckOfTheScatterSceneCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *scatterPlay)
	}{
		{"", func(*scatterPlay) {}},
		{"", func(p *scatterPlay) { p.uncertain.Store(1); p.sum[1] = 101 }},
		{"partial_is_told", func(p *scatterPlay) { p.partialE = nil }},
		{"partial_is_told", func(p *scatterPlay) { p.missing = []string{"0"} }},
		{"partial_is_a_part", func(p *scatterPlay) { p.partial = 61 }},
		{"partial_is_a_part", func(p *scatterPlay) { p.partial, p.behind = 0, eventWriters }},
		{"sum_is_exact", func(p *scatterPlay) { p.written.Store(101) }},
		{"sum_is_exact", func(p *scatterPlay) { p.uncertain.Store(1); p.sum[2] = 102 }},
		{"one_list", func(p *scatterPlay) { p.newest = p.newest[1:] }},
		{"one_list", func(p *scatterPlay) { p.newest[3], p.newest[4] = p.newest[4], p.newest[3] }},
		{"server_is_left", func(p *scatterPlay) { p.left = nil }},
		{"server_is_left", func(p *scatterPlay) { p.left[leaving].Empty = false }},
		{"server_is_left", func(p *scatterPlay) { p.left[leaving].Flushes++ }},
		{"server_is_left", func(p *scatterPlay) { p.left[0].Flushes-- }},
	} {
		p := soundScatter()
		test.spoil(p)
		wantFailed(t, p.judge().Checks, test.check)
	}
	p := soundScatter()
	p.written.Store(99)
	p.sum[0] = 99 // half an event
	if !slices.ContainsFunc(p.judge().Checks, func(c Check) bool { return c.Name == "whole_events" && !c.OK }) {
		t.Error("half an event passes")
	}
}

func TestCancelEndsTheScatterScene(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	cfg := testConfig(server.URL(), scatterScene())
	cfg.Duration = time.Hour
	cfg.embedded = found(t)
	screen := &notes{}
	cfg.Progress, cfg.Live = screen, true
	wantEnd(t, cfg, func() bool { return screen.has("all servers answer") })
	wantEmpty(t, server.Client(t))
}
