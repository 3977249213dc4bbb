package survey

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

// noon is when histories of tests begin.
var noon = time.Unix(1_700_000_000, 0)

// of returns a column's values.
func of(t *testing.T, s Series, name string) []float64 {
	t.Helper()
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no column %s", name)
	}
	if got, want := len(s.Columns[i].Values), len(s.Times); got != want {
		t.Fatalf("%d values of %s for %d times", got, name, want)
	}
	return s.Columns[i].Values
}

// told adds Views to histories as a survey does.
func told(views ...*View) *Survey {
	s := newSurvey(nil, discard)
	s.known = names{of: map[Kind][]string{Queue: {"a"}, Ick: {"a"}, Channel: {"a"}}}
	for _, v := range views {
		s.publish(v)
	}
	return s
}

func TestSeries(t *testing.T) {
	t.Parallel()
	queue := func(seconds, waiting int, written, acked int64) *View {
		return &View{At: noon.Add(time.Duration(seconds) * time.Second), Queues: []fairqueue.Stats{{
			Name: "a", Waiting: waiting, InFlight: 2, Delayed: 3, Dead: 4, OldestAge: time.Minute,
			Counters: queuestats.Counters{Written: written, Delivered: written / 2, Acked: acked, Nacked: acked, Reclaimed: 2 * acked, Buried: acked},
		}}}
	}
	late := queue(0, 9, 0, 0).late(nil, Trouble{Kind: Server, Err: context.DeadlineExceeded})
	late.At = noon.Add(12 * time.Second)
	s := told(
		queue(0, 10, 100, 7),
		queue(1, 99, 100, 7), // a survey for a watcher, and no sample
		queue(4, 99, 100, 7),
		queue(5, 11, 150, 7),
		late, // which is no news
		queue(15, 12, 350, 8),
		queue(20, 13, 20, 9), // deleted, and written again
		queue(25, 14, 30, 9),
	)
	got := s.Series(Queue, "a")
	column := func(name string, values ...float64) Column { return Column{Name: name, Values: values} }
	want := Series{
		Times: []int64{noon.Unix() + 5, noon.Unix() + 15, noon.Unix() + 20, noon.Unix() + 25},
		Columns: []Column{
			column("waiting", 11, 12, 13, 14),
			column("in_flight", 2, 2, 2, 2),
			column("delayed", 3, 3, 3, 3),
			column("dead", 4, 4, 4, 4),
			column("oldest_age_seconds", 60, 60, 60, 60),
			column("written", 10, 20, 0, 2),
			column("delivered", 5, 10, 0, 1),
			column("acked", 0, 0.1, 0.2, 0),
			column("failed", 0, 0.3, 0.6, 0),
			column("died", 0, 0.1, 0.2, 0),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Series (-want +got):\n%s", diff)
	}
	for _, of := range []subject{{Queue, "b"}, {Ick, "a"}, {Lease, "a"}, {Steal, ""}} {
		if got := s.Series(of.kind, of.name); len(got.Times)+len(got.Columns) > 0 {
			t.Errorf("Series of %v = %v, want none", of, got)
		}
	}
}

// TestSeriesOfOthers: icks, channels, jobs and servers have their own columns.
func TestSeriesOfOthers(t *testing.T) {
	t.Parallel()
	view := func(step int64) *View {
		counters := ick.Counters{New: 50 * step, Folded: 100 * step, Committed: 150 * step}
		return &View{
			At: noon.Add(time.Duration(step) * idleInterval),
			Icks: []ick.Stats{{
				Name: "a", Waiting: ick.SetStats{Size: 1}, Reserved: ick.SetStats{Size: 2}, OldestAge: 3 * time.Second, Counters: counters,
			}},
			Channels: []ick.ChannelStats{{Name: "a", Waiting: 4, Reserved: 5, OldestAge: 6 * time.Second, Counters: counters}},
			Steal: upkeep.Totals{Jobs: []steal.JobStats{{
				Name: "sweep", Worked: 60 * step, Idle: 30 * step, Aborted: 10 * step, Busy: 10 * step,
			}}},
			Server: ServerView{Nodes: []NodeView{
				{Role: "master", Memory: 100, Ops: 7}, {Role: "slave", Memory: 1000, Ops: 1000}, {Memory: 11, Ops: 5},
			}},
		}
	}
	s := told(view(0), view(1))
	for _, tc := range []struct {
		of   subject
		want string
	}{
		{subject{Ick, "a"}, "waiting 1, reserved 2, oldest_age_seconds 3, new 10, folded 20, committed 30, "},
		{subject{Channel, "a"}, "waiting 4, reserved 5, oldest_age_seconds 6, new 10, folded 20, committed 30, "},
		{subject{Steal, "sweep"}, "worked 12, idle 6, aborted 2, "},
		{subject{Server, ""}, "memory_bytes 111, ops 12, "},
	} {
		got := ""
		for _, c := range s.Series(tc.of.kind, tc.of.name).Columns {
			got += fmt.Sprintf("%s %v, ", c.Name, c.Values[0])
		}
		if got != tc.want {
			t.Errorf("Series of %v = %q, want %q", tc.of, got, tc.want)
		}
	}
}

// TestSeriesAreForgotten: a structure that is gone has no history, and one that could not
// be read keeps its own.
func TestSeriesAreForgotten(t *testing.T) {
	t.Parallel()
	all := &View{
		At: noon, Queues: []fairqueue.Stats{{Name: "a"}},
		Steal: upkeep.Totals{Jobs: []steal.JobStats{{Name: "a"}, {Name: "b"}}},
	}
	has := func(s *Survey) string {
		var of []string
		for one := range s.histories.of {
			of = append(of, fmt.Sprint(one.kind, " ", one.name))
		}
		slices.Sort(of)
		return fmt.Sprint(of)
	}
	s := told(all)
	unread := &View{At: noon.Add(idleInterval), Troubles: []Trouble{{Kind: Queue, Name: "a"}, {Kind: Steal}}}
	s.publish(unread)
	if got, want := has(s), "[queue a server  steal a steal b]"; got != want {
		t.Errorf("histories = %s, want %s", got, want)
	}
	fewer := &View{At: noon.Add(2 * idleInterval), Steal: upkeep.Totals{Jobs: []steal.JobStats{{Name: "b"}}}}
	s.publish(fewer)
	if got, want := has(s), "[queue a server  steal b]"; got != want {
		t.Errorf("histories = %s, want %s", got, want)
	}
	s.known = names{}
	fewer = &View{At: noon.Add(3 * idleInterval)}
	s.publish(fewer)
	if got, want := has(s), "[server ]"; got != want {
		t.Errorf("histories = %s, want %s", got, want)
	}
}

// TestHistoryIsAnHour: the ring keeps the newest 720 samples in their order, and takes
// the memory that the documentation says.
func TestHistoryIsAnHour(t *testing.T) {
	t.Parallel()
	h := newHistory([]heading{{name: "number"}, {name: "grown", rate: true}})
	const n = 2*samples + samples/2
	for i := range n {
		row := h.row(noon.Add(time.Duration(i) * idleInterval).UnixMilli())
		row[0], row[1] = float64(i), float64(10*i)
	}
	s := h.series()
	if got, want := len(s.Times), samples-1; got != want {
		t.Fatalf("%d times, want %d", got, want)
	}
	for i, at := range s.Times {
		number := n - samples + 1 + i
		if want := noon.Unix() + int64(number*5); at != want {
			t.Fatalf("time %d = %d, want %d", i, at, want)
		}
		if got := of(t, s, "number")[i]; got != float64(number) {
			t.Fatalf("sample %d = %v, want %d", i, got, number)
		}
		if got := of(t, s, "grown")[i]; got != 2 {
			t.Fatalf("rate %d = %v, want 2", i, got)
		}
	}
	if got, want := cap(h.times)+cap(h.values), 3*samples; got != want {
		t.Errorf("the ring has room for %d numbers, want %d", got, want)
	}
	if got, want := s.Times[len(s.Times)-1]-s.Times[0], int64(time.Hour/time.Second)-10; got != want {
		t.Errorf("it spans %d s, want %d", got, want)
	}
}

// TestMemory checks the histories against the documented memory. They take all of it with
// the first sample.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := newSurvey(nil, discard)
	s.known = names{of: map[Kind][]string{}}
	v := &View{}
	for i := range most {
		name := fmt.Sprint(1000 + i)
		v.Queues = append(v.Queues, fairqueue.Stats{Name: name})
		v.Icks = append(v.Icks, ick.Stats{Name: name})
		v.Channels = append(v.Channels, ick.ChannelStats{Name: name})
		for _, kind := range []Kind{Queue, Ick, Channel} {
			s.known.of[kind] = append(s.known.of[kind], name)
		}
	}
	for i := range 100 {
		v.Steal.Jobs = append(v.Steal.Jobs, steal.JobStats{Name: fmt.Sprint(i)})
	}
	v.At = noon
	s.publish(v)
	bytes := 0
	for of, h := range s.histories.of {
		one := 8 * (cap(h.times) + cap(h.values))
		if bytes += one; of.kind == Queue && one > 64_000 {
			t.Errorf("an hour of a queue takes %d bytes", one)
		}
	}
	if got, want := bytes, 31_500_000; got > want || got < want*9/10 {
		t.Errorf("all histories take %d bytes, want a little less than %d", got, want)
	}
}

// TestClockSetBack: a clock that goes back begins all histories anew.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	var views []*View
	for i, seconds := range []int{0, 5, 10, -3600, -3595, -3590} {
		views = append(views, &View{At: noon.Add(time.Duration(seconds) * time.Second), Icks: []ick.Stats{{Name: "a", Waiting: ick.SetStats{Size: i}}}})
	}
	views[3].Icks = nil // it could not be read then
	s := told(views...).Series(Ick, "a")
	if got, want := fmt.Sprint(s.Times, of(t, s, "waiting")), fmt.Sprint([]int64{noon.Unix() - 3590}, []float64{5}); got != want {
		t.Errorf("Series = %s, want %s", got, want)
	}
}

// TestSamplesAreOfTheSameLooks: a structure found between two samples has its next sample
// with those of all others, at any pace, so that series can be added up.
func TestSamplesAreOfTheSameLooks(t *testing.T) {
	t.Parallel()
	var views []*View
	for second := range 31 {
		v := &View{At: noon.Add(time.Duration(second) * time.Second), Queues: []fairqueue.Stats{{Name: "a"}}}
		if second >= 2 {
			v.Icks = []ick.Stats{{Name: "a"}}
		}
		views = append(views, v)
	}
	s := told(views...)
	first, second := s.Series(Queue, "a").Times, s.Series(Ick, "a").Times
	if got, want := len(first), 6; got != want {
		t.Fatalf("%d times in half a minute, want %d: %v", got, want, first)
	}
	if diff := cmp.Diff(first[1:], second); diff != "" {
		t.Errorf("times of the second structure (-those of the first +its own):\n%s", diff)
	}
}

// TestSamplesWhileWatched: looks that are a second apart leave samples 5 s apart, so
// that the ring holds an hour all the same.
func TestSamplesWhileWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSurvey(newStory(), discard)
		run(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second/2) // no viewer goes at the moment of a look
		defer cancel()
		for range s.Watch(ctx) {
		}
		pass(time.Minute)
		times := s.Series(Queue, "a").Times
		if got, want := len(times), 24; got != want {
			t.Errorf("%d times in two minutes, want %d: %v", got, want, times)
		}
		for i := 1; i < len(times); i++ {
			if got, want := times[i]-times[i-1], int64(5); got != want {
				t.Errorf("time %d is %d s after the one before, want %d", i, got, want)
			}
		}
	})
}
