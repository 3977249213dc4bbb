package demo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/scatter"
)

// judge says whether the readings tell what was written.
func (p *scatterPlay) judge() Scene {
	var seen Scene
	written, uncertain := p.written.Load(), p.uncertain.Load()
	least, most := slices.Min(p.sum), slices.Max(p.sum)
	seen.check("partial_is_told", errors.Is(p.partialE, millrace.ErrPartial) && slices.Equal(p.missing, []string{"1"}),
		"while a server was paused the reading said that it is a part, and which server is missing: %s", strings.Join(p.missing, ", "))
	seen.check("partial_is_a_part", p.behind > eventWriters && p.partial <= p.begun-p.behind,
		"it was a part: %s of at most %s, without the %s that lie there", grouped(p.partial), grouped(p.begun), grouped(p.behind))
	seen.check("sum_is_exact", least >= written && most <= written+uncertain,
		"in the end each of %d counters has what was written: %s of %s, and %s uncertain", eventCounters, grouped(least), grouped(written), grouped(uncertain))
	seen.check("whole_events", uncertain > 0 || least == most,
		"an event counts up all its counters or none")
	seen.check("one_list", len(p.newest) == eventsKept && slices.IsSortedFunc(p.newest, func(a, b scatter.Entry) int { return cmp.Compare(b.At.UnixMilli(), a.At.UnixMilli()) }),
		"the newest %d events of all servers are one list, newest first", len(p.newest))
	p.judgeLeaving(&seen)

	seen.count("servers", shards, "servers", "")
	seen.count("events", written, "events written", fmt.Sprintf("%d counters and a list each, on one server", eventCounters))
	seen.count("uncertain", uncertain, "events uncertain", "")
	seen.Figures = append(seen.Figures, Figure{
		Key: "by_server", Value: p.apart, Label: "events by server", Text: strings.Join(groupedAll(p.apart), " "), Note: "by the hash of the shard key",
	})
	seen.count("partial", p.partial, "read in the pause", "from three servers")
	seen.count("read", least, "read in the end", "from all four")
	seen.micros("reading_us", p.reading, "for that reading", fmt.Sprintf("%d counters and a list, in one round trip", eventCounters))
	return seen
}

func groupedAll(numbers []int64) []string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = grouped(n)
	}
	return texts
}
