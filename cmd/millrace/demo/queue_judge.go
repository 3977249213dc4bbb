package demo

import (
	"slices"

	"github.com/millrace/millrace/fairqueue"
)

const (
	// turnsAtMost is how many messages of others may be delivered while one of a quiet
	// tenant waits: one of each tenant. It is twice that, because a tenant whose message
	// was under way may have its turn in the same millisecond.
	turnsAtMost = 2 * (quietTenants + 1)

	// slowAtMost is how many handlers the slow tenant may have at once: half of all.
	slowAtMost = queueWorkers * hands / 2

	// heldAtMost is how many messages a killed worker may have had: one in each hand, and
	// one fetched for it, while that in the hand is handled but not yet acknowledged.
	heldAtMost = 2 * hands

	// slowAhead is how many of its messages may be delivered while one of a quiet tenant
	// waits. None needs to; it is a few on a machine that has no time for the workers.
	slowAhead = queueWorkers * hands
)

// judge compares what the queues and the workers did with what the ledger says. The
// tenants have ended, and the workers, too.
func (p *queuePlay) judge() Scene {
	var seen Scene
	l := p.ledger
	written, _, _ := l.counts()

	lost := p.failLost(&seen)
	seen.check("all_handled", lost == 0,
		"every message was handled, under the id that its writer got: %s of %s", grouped(written-lost), grouped(written))
	left, inLine := held(p.last[fair]), held(p.last[line])
	seen.check("nothing_stranded", left+inLine == 0, "the queue ended up empty, and so did the line: %d and %d messages left", left, inLine)

	quiet, quietInLine := l.positions(fair, floods, ""), l.positions(line, floods, "")
	seen.check("quiet_have_their_turn", len(quiet) > 0 && most(quiet) <= turnsAtMost,
		"beside the flood a quiet tenant waited for at most %s messages of others, of which %d may be ahead; in one line for %s",
		grouped(most(quiet)), turnsAtMost, grouped(most(quietInLine)))

	atOnce, atOnceInLine := l.mostAtOnce(fair, dawdler), l.mostAtOnce(line, dawdler)
	seen.check("slow_has_its_share", atOnce > 0 && atOnce <= slowAtMost,
		"the slow tenant had at most %d of %d handlers; in one line %d", atOnce, queueWorkers*hands, atOnceInLine)
	beside, besideInLine := l.positions(fair, dawdles, dawdler), l.positions(line, dawdles, dawdler)
	seen.check("quiet_do_not_wait_for_the_slow", len(beside) > 0 && most(beside) <= slowAhead,
		"beside the slow one a quiet tenant waited for at most %d of its messages, of which %d may be ahead; in one line for %d",
		most(beside), slowAhead, most(besideInLine))

	of := p.last[fair].Counters
	seen.check("only_from_the_killed", of.Reclaimed <= int64(p.kills*heldAtMost),
		"no more was delivered again than the killed had: %d messages, of up to %d each of %d", of.Reclaimed, heldAtMost, p.kills)
	seen.check("counted", of.Written == int64(written) && of.Acked == of.Written && of.Delivered == of.Acked+of.Reclaimed+of.Returned,
		"the queue counted alike: %s written = %s acknowledged, %s delivered = acknowledged + %s of the killed + %s handed back",
		grouped(of.Written), grouped(of.Acked), grouped(of.Delivered), grouped(of.Reclaimed), grouped(of.Returned))

	flood, slow := l.ofTenant(importer), l.ofTenant(dawdler)
	seen.count("messages", int64(written), "messages written", "to the queue, and to one line for all")
	seen.count("flood", int64(flood), "of the tenant who floods", "who keeps "+grouped(floodAhead)+" waiting")
	seen.count("slow", int64(slow), "of the tenant who is slow", "each takes its handler "+briefly(slowWork)+", and others "+briefly(quickWork))
	seen.count("quiet", int64(written-flood-slow), "of "+grouped(quietTenants)+" others", "")
	seen.count("quiet_ahead_median", int64(median(quiet)), "ahead of them in the flood (median)", "messages of others that were delivered first")
	seen.count("quiet_ahead_most", int64(most(quiet)), "ahead of them in the flood (most)", "")
	seen.count("line_quiet_ahead_median", int64(median(quietInLine)), "  in one line (median)", "")
	seen.count("line_quiet_ahead_most", int64(most(quietInLine)), "  in one line (most)", "")
	seen.count("slow_handlers", int64(atOnce), "handlers of the slow one at once", "of "+grouped(queueWorkers*hands))
	seen.count("line_slow_handlers", int64(atOnceInLine), "  in one line", "")
	seen.count("kills", int64(p.kills), "workers killed", "of "+grouped(queueWorkers)+", another one started each time")
	seen.count("redelivered", of.Reclaimed, "messages delivered again", seconds(inHandFor)+" after the kill")
	seen.count("handled_twice", int64(p.twice()), "messages handled twice", "their worker was killed before it could say so")
	seen.time("loading_ms", p.loading, "writing messages", "")
	seen.time("draining_ms", p.draining, "and until all were handled", "")
	return seen
}

// held is how many messages a queue holds, in whatever state.
func held(s fairqueue.Stats) int { return s.Waiting + s.InFlight + s.Delayed + s.Dead }

// most and median are of sorted numbers.
func most(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return slices.Max(numbers)
}

func median(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)/2]
}

// failLost returns how many messages were not handled, or under another id, and
// names the first ones.
func (p *queuePlay) failLost(seen *Scene) (lost int) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, m := range l.messages {
		t := m.trips[fair]
		if t.handled > 0 && t.id == m.id {
			continue
		}
		lost++
		seen.fail("message %d was written as %q, delivered %d times as %q, and handled %d times", number, m.id, t.told, t.id, t.handled)
	}
	return lost
}

// twice returns how many messages were handled more than once.
func (p *queuePlay) twice() (n int) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.trips[fair].handled > 1 {
			n++
		}
	}
	return n
}
