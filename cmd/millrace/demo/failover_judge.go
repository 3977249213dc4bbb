package demo

import (
	"fmt"
	"slices"
	"time"
)

// judge compares what the fleet has with what its writers know.
func (p *failoverPlay) judge() Scene {
	var seen Scene
	all := p.sums(func(b *book) int { return len(b.done) })
	lost := p.sums(func(b *book) int { return len(b.lost) })

	on := 0
	for _, v := range p.victims {
		if v.after > 0 {
			on++
		} else {
			seen.fail("partition %d had no other master, or not all of its writers went on, %s after its master was lost", v.partition, failoverPatience)
		}
	}
	seen.check("writes_go_on", on == failoverPartitions,
		"both partitions took writes again by themselves: %s after the kill, and %s after the freeze", briefly(p.victims[0].after), briefly(p.victims[1].after))
	seen.check("confirmed_is_there", lost.confirmed() == 0 && slices.Min(all[0][:]) > 0,
		"of what a replica had confirmed nothing is lost: %s of %s writes", grouped(lost.confirmed()), grouped(all.confirmed()))
	beyond := p.failLost(&seen)
	windows := p.sums(p.window)
	seen.check("loss_in_its_window", beyond == 0 && slices.Min(all[1][:]) > 0,
		"of what waited for nobody no more is lost than the new masters may not have been sent: %s of %s, and %s of %s",
		grouped(lost[1][0]), grouped(windows[1][0]), grouped(lost[1][1]), grouped(windows[1][1]))
	back := 0
	for _, v := range p.victims {
		if v.back && v.has == v.want && v.want > 0 {
			back++
		} else {
			seen.fail("%s, which was the master of partition %d, is a replica in step: %v, and has %s of %s writes",
				v.server.Addr, v.partition, v.back, grouped(v.has), grouped(v.want))
		}
	}
	seen.check("back_in_step", back == failoverPartitions, "who was killed or frozen is a replica in step, with all that its master has: %d of %d", back, len(p.victims))
	p.tabulate(&seen)
	return seen
}

// failLost returns how many writes are lost that should not be, and names the first
// ones.
func (p *failoverPlay) failLost(seen *Scene) (beyond int) {
	for _, b := range p.books {
		v := p.victims[b.partition]
		for _, e := range b.lost {
			switch {
			case b.confirmed:
				seen.fail("%s in the book %s was confirmed by a replica, and is lost", e.text, b.tag)
			case !e.at.After(v.whole[v.elected]) || !e.at.Before(v.led):
				beyond++
				seen.fail("%s in the book %s is lost, and %s, which leads now, had it: it was written %s before the accident",
					e.text, b.tag, v.elected, briefly(v.accident.Sub(e.at)))
			}
		}
	}
	return beyond
}

// window returns how many writes in a book may be lost: none that was confirmed, and
// of the others what was acknowledged since the member that leads now was last known
// to have everything, and before it led.
func (p *failoverPlay) window(b *book) int {
	if b.confirmed {
		return 0
	}
	v := p.victims[b.partition]
	return b.between(v.whole[v.elected], v.led)
}

// sums is a number for each book: first those of confirmed writes, then the others;
// of each first that of the partition whose master was killed.
type sums [2][2]int

func (p *failoverPlay) sums(of func(*book) int) (s sums) {
	for _, b := range p.books {
		kind := 1
		if b.confirmed {
			kind = 0
		}
		s[kind][b.partition] = of(b)
	}
	return s
}

func (s sums) confirmed() int { return s[0][0] + s[0][1] }

// tabulate puts what was seen into figures.
func (p *failoverPlay) tabulate(seen *Scene) {
	seen.count("partitions", failoverPartitions, "partitions", fmt.Sprintf("%8s%8s: what happened to its master", "killed", "frozen"))
	done := p.sums(func(b *book) int { return len(b.done) })
	pauses := p.sums(func(b *book) int { return int(b.pause.Milliseconds()) })
	uncertain := p.sums(func(b *book) int { return len(b.uncertain) })
	there := p.sums(func(b *book) int { return b.there })
	lost := p.sums(func(b *book) int { return len(b.lost) })
	windows := p.sums(p.window)
	for kind, words := range [2]struct{ key, label, window, promise string }{
		{"confirmed", "writes, each confirmed by a replica", "", "promised: none"},
		{"plain", "writes that wait for nobody", "acknowledged, and perhaps not yet sent to the new master", "promised: no more than may be"},
	} {
		seen.pair(words.key+"_writes", done[kind], words.label, "")
		seen.pairOfTimes(words.key+"_pause_ms", pauses[kind], "  longest pause")
		seen.pair(words.key+"_uncertain", uncertain[kind], "  uncertain", grouped(there[kind][0]+there[kind][1])+" of them are there")
		seen.pair(words.key+"_window", windows[kind], "  may be lost", words.window)
		seen.pair(words.key+"_lost", lost[kind], "  lost", words.promise)
	}
	refused := p.sums(func(b *book) int { return b.refused })
	seen.count("refused", int64(refused.confirmed()+refused[1][0]+refused[1][1]), "refused while there was no master", "their writers were told that nothing was written")
	seen.time("writing_ms", p.writing, "the load", "")
}

// pair is a count for each of the two partitions.
func (s *Scene) pair(key string, n [2]int, label, note string) {
	s.Figures = append(s.Figures, Figure{
		Key: key, Value: n, Label: label, Text: grouped(n[0] + n[1]), Note: columns(grouped(n[0]), grouped(n[1]), note),
	})
}

// pairOfTimes is a time for each of the two partitions, in milliseconds.
func (s *Scene) pairOfTimes(key string, ms [2]int, label string) {
	text := func(ms int) string { return briefly(time.Duration(ms) * time.Millisecond) }
	s.Figures = append(s.Figures, Figure{
		Key: key, Value: ms, Label: label, Text: text(max(ms[0], ms[1])), Note: columns(text(ms[0]), text(ms[1]), ""),
	})
}

func columns(first, second, note string) string {
	return fmt.Sprintf("%8s%8s  %s", first, second, note)
}
