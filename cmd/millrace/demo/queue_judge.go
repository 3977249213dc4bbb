package demo

import (
	"fmt"
	"time"
)

const (
	// fairMedian is how many times as long as in the queue quiet tenants must wait
	// in the plain stream, in the median; of the slowest in a hundred the wait
	// must be no longer in the queue. It is a hundred times as long, or more, on a
	// machine with nothing else to do.
	fairMedian = 3

	// leastFlood is how many messages must have been ahead of the workers at a
	// time for waits to be compared. A server that is so far away that nobody can
	// flood it makes all wait alike.
	leastFlood = floodAhead / 2
)

// judge compares what the queue and the workers did with what the ledger says. The
// tenants have ended, and the workers, too.
func (p *queuePlay) judge() Scene {
	var seen Scene
	l := p.ledger
	written, _ := l.counts()
	of := p.last.Counters

	lost := p.failLost(&seen)
	seen.check("all_handled", lost == 0,
		"every message was handled, under the id that its writer got: %s of %s", grouped(written-lost), grouped(written))
	seen.check("nothing_stranded", p.left() == 0,
		"the queue ended up empty: %d waiting, %d in flight, %d delayed, %d dead",
		p.last.Waiting, p.last.InFlight, p.last.Delayed, p.last.Dead)

	again, twice, stolen := p.repeats()
	seen.check("only_from_the_killed", stolen == 0,
		"what was delivered again had been in the hands of a killed worker: %s of %s messages, %s of them handled already",
		grouped(again-stolen), grouped(again), grouped(twice))

	median, slow := l.pickups(fair, true, 0.5), l.pickups(fair, true, 0.99)
	plainMedian, plainSlow := l.pickups(fifo, true, 0.5), l.pickups(fifo, true, 0.99)
	if l.ahead >= leastFlood {
		seen.check("quiet_do_not_wait", len(l.waited[fair][true]) > 0 && fairMedian*median <= plainMedian && slow <= plainSlow,
			"quiet tenants do not wait behind the flood: median %s, p99 %s; in one stream %s and %s",
			briefly(median), briefly(slow), briefly(plainMedian), briefly(plainSlow))
	} else {
		seen.check("quiet_do_not_wait", true,
			"waits were not compared: %s messages at most were ahead of the workers, and a flood begins at %s",
			grouped(l.ahead), grouped(leastFlood))
	}

	first, most, least := queueStreams[0], queueStreams[1], queueStreams[2]
	seen.check("resized", p.last.StreamCount == least && l.streams > first && p.dropped > 0,
		"the queue went from %d to %d streams, which were used, and to %d: %s messages waited in those given up",
		first, most, least, grouped(p.dropped))
	seen.check("counted", of.Written == int64(written) && of.Acked == of.Written && of.Delivered == of.Acked+of.Reclaimed,
		"the queue counted alike: %s written = %s acknowledged, %s delivered = acknowledged + %s of the killed",
		grouped(of.Written), grouped(of.Acked), grouped(of.Delivered), grouped(of.Reclaimed))

	seen.count("messages", int64(written), "messages written", grouped(perSecond(int64(written), p.loading))+" a second, to the queue and to one plain stream")
	seen.count("flood", int64(l.flood), "of one tenant", fmt.Sprintf("who keeps %s waiting", grouped(floodAhead)))
	seen.count("ahead", int64(l.ahead), "ahead of the workers at most", "written and not handled yet")
	seen.count("quiet", int64(written-l.flood), fmt.Sprintf("of %d others", quietTenants),
		fmt.Sprintf("each one in %d ms on average", quietEvery.Milliseconds()))
	seen.time("quiet_p50_ms", median, "wait of the others (median)", "")
	seen.time("quiet_p99_ms", slow, "wait of the others (p99)", "")
	seen.time("fifo_quiet_p50_ms", plainMedian, "  in one plain stream (median)", ratio(plainMedian, median))
	seen.time("fifo_quiet_p99_ms", plainSlow, "  in one plain stream (p99)", ratio(plainSlow, slow))
	seen.time("flood_p50_ms", l.pickups(fair, false, 0.5), "wait of the flood (median)", "it waits behind itself")
	seen.time("flood_p99_ms", l.pickups(fair, false, 0.99), "wait of the flood (p99)", "")
	seen.time("fifo_flood_p50_ms", l.pickups(fifo, false, 0.5), "  in one plain stream (median)", "")
	seen.time("fifo_flood_p99_ms", l.pickups(fifo, false, 0.99), "  in one plain stream (p99)", "")
	seen.count("kills", int64(p.kills), "workers killed",
		fmt.Sprintf("of %d, another one started each time", queueWorkers))
	seen.count("redelivered", int64(again), "messages delivered again", fmt.Sprintf("%s after the kill", seconds(inHandFor)))
	seen.count("handled_twice", int64(twice), "messages handled twice", "their worker was killed before it could say so")
	seen.count("dropped", int64(p.dropped), "waited in streams given up", "and were read there")
	seen.time("loading_ms", p.loading, "writing messages", "")
	seen.time("draining_ms", p.draining, "and until all were handled", "")
	return seen
}

// ratio says how many times longer a time is than another.
func ratio(longer, shorter time.Duration) string {
	return fmt.Sprintf("%.0f times as long", float64(longer)/float64(max(shorter, time.Millisecond)))
}

// failLost returns how many messages were not handled, or under another id, and
// names the first ones.
func (p *queuePlay) failLost(seen *Scene) (lost int) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, m := range l.messages {
		if m.done[fair] > 0 && m.told == m.id {
			continue
		}
		lost++
		seen.fail("message %d was written as %q, delivered %d times as %q, and handled %d times",
			number, m.id, len(m.had), m.told, m.done[fair])
	}
	return lost
}

// repeats returns how many messages were delivered more than once, how many of
// these were handled more than once, and how many were taken from a worker that
// was not killed.
func (p *queuePlay) repeats() (again, twice, stolen int) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.done[fair] > 1 {
			twice++
		}
		if len(m.had) < 2 {
			continue
		}
		again++
		for _, worker := range m.had[:len(m.had)-1] {
			if !l.killed[worker] {
				stolen++
				break
			}
		}
	}
	return again, twice, stolen
}
