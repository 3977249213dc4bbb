package demo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fleet"
)

// judge compares what the fleet has with what the scene itself knows. The market is
// closed, and all that was left in it is settled.
func (p *fleetPlay) judge() Scene {
	var seen Scene
	t := &p.market.tally

	moved := p.failMoved(&seen)
	seen.check("nothing_moved", moved == 0 && len(p.before) > 0,
		"no data moved: %s of %s tags that had their place before the partition was added are there, with their keys",
		grouped(len(p.before)-moved), grouped(len(p.before)))
	several := p.homes.severalHomes()
	for _, tag := range several {
		seen.fail("%s has its place on partitions %v, and keys on %v", tag, p.homes.homes[tag], p.homes.keys[tag])
	}
	all := max(len(p.homes.homes), len(p.homes.keys))
	seen.check("one_home", len(several) == 0 && all > 0,
		"no tag has two homes: %s of %s have their record and their keys on one partition", grouped(all-len(several)), grouped(all))
	_, added, last := p.turns()
	taken := last.tags[fleetPartitions] - added.tags[fleetPartitions]
	placed := sum(last.tags) - sum(added.tags)
	seen.check("new_takes_tags", taken > 0,
		"the new partition took tags: %s of %s that were placed after it was added", grouped(taken), grouped(placed))

	marks, jobs, acked, left := p.settled(&seen)
	seen.check("marks_handed_out", marks == t.marks.Load() && marks > 0,
		"every mark was handed out: %s of %s", grouped(marks), grouped(t.marks.Load()))
	seen.check("messages_handled", jobs == t.jobs.Load() && acked == jobs && jobs > 0,
		"every message was handled and acknowledged: %s and %s of %s", grouped(jobs), grouped(acked), grouped(t.jobs.Load()))
	seen.check("nothing_left", left == 0, "the Icks and queues ended up empty: %s left", grouped(left))
	leases := t.turns.Load() + int64(len(p.market.tickets))
	seen.check("one_holder", t.twice.Load() == 0 && t.lost.Load() == 0 && leases > 0,
		"no lease had two holders, and none was lost: %s and %s of %s", grouped(t.twice.Load()), grouped(t.lost.Load()), grouped(leases))
	seen.check("entries_on_time", t.late.Load() == 0 && t.early.Load() == 0 && t.found.Load() > 0 && t.over.Load() > 0,
		"fields and values were there until their time and not after: %s reads found theirs, %s came after, %s were late and %s early",
		grouped(t.found.Load()), grouped(t.over.Load()), grouped(t.late.Load()), grouped(t.early.Load()))

	for _, failure := range t.failures {
		seen.fail("%s", failure)
	}
	p.tabulate(&seen)
	return seen
}

// tabulate puts what was seen into figures.
func (p *fleetPlay) tabulate(seen *Scene) {
	t := &p.market.tally
	var head strings.Builder
	for id := range fleetPartitions + 1 {
		fmt.Fprintf(&head, "%8s", fmt.Sprintf("no. %d", id))
	}
	seen.count("partitions", fleetPartitions+1, "partitions", head.String()+": the new one")
	before, added, last := p.turns()
	seen.each("tags_before", before.tags, "tags, before it was added")
	seen.each("tags_after", last.tags, "tags, in the end")
	seen.each("commands_per_second_before", before.since(p.looks[0]), "commands a second, before it was added")
	seen.each("commands_per_second_after", last.since(added), "commands a second, after")
	seen.time("adding_ms", p.added.Sub(p.adding), "adding the partition", "mostly waiting until every client must have heard of it")
	seen.time("placing_ms", p.slowest(time.Time{}, p.adding), "placing a new tag, at most", "before it was added")
	seen.time("placing_while_adding_ms", p.slowest(p.adding, p.added), "  while it was added", "until clients had the new map")
	mean, most := p.after.questions()
	was, _ := p.before.questions()
	seen.Figures = append(seen.Figures, Figure{
		Key: "questions", Value: math.Round(100*mean) / 100, Label: "partitions asked for an old tag",
		Text: fmt.Sprintf("%.2f", mean), Note: fmt.Sprintf("before %.2f; %d at most", was, most),
	})
	seen.count("customers", t.customers.Load(), "customers", "each with an Ick, a queue, a lease, a hash and values")
	seen.count("marks", t.marks.Load(), "marks made", "")
	seen.count("messages", t.jobs.Load(), "messages written", "")
	seen.count("reads", t.reads.Load(), "reads of fields and values", "")
	seen.count("turns", t.turns.Load(), "leases of customers taken", grouped(t.away.Load())+" times it was held by somebody else")
	seen.count("tickets", int64(len(p.market.tickets)), "new names for a lease", "each asked for by two clients at the same time")
	seen.time("serving_ms", p.serving, "the load", "")
	seen.time("closing_ms", p.closing, "and until all was settled and looked at", "")
}

// each is a count for each partition.
func (s *Scene) each(key string, values []int64, label string) {
	values = append(slices.Clone(values), make([]int64, fleetPartitions+1-len(values))...)
	var text strings.Builder
	for _, v := range values {
		fmt.Fprintf(&text, "%8s", grouped(v))
	}
	s.Figures = append(s.Figures, Figure{Key: key, Value: values, Label: label, Text: grouped(sum(values)), Note: text.String()})
}

// turns returns the last look before the partition was added, the first one after
// that which has it, and the last one of all.
func (p *fleetPlay) turns() (before, added, last fleetLook) {
	for _, l := range p.looks {
		if l.at.Before(p.adding) {
			before = l
		}
		if l.at.After(p.added) && len(l.tags) > fleetPartitions && added.at.IsZero() {
			added = l
		}
		last = l
	}
	return before, added, last
}

// slowest returns how long it took at most to place a tag, of those that were being
// placed between these two.
func (p *fleetPlay) slowest(from, until time.Time) (most time.Duration) {
	for _, t := range p.market.tickets {
		if t.asked.Before(until) && t.got.After(from) {
			most = max(most, t.got.Sub(t.asked))
		}
	}
	return most
}

// failMoved returns how many tags are not where they were, or have no keys there, and
// names the first ones.
func (p *fleetPlay) failMoved(seen *Scene) (moved int) {
	for tag, was := range p.before {
		is := p.after[tag]
		if was.How == fleet.Nowhere || is.Partition != was.Partition || is.How == fleet.Nowhere || !slices.Contains(p.homes.keys[tag], was.Partition) {
			moved++
			seen.fail("%s was on partition %d, found by %s, and is on %d, found by %s, with keys on %v",
				tag, was.Partition, was.How, is.Partition, is.How, p.homes.keys[tag])
		}
	}
	return moved
}

// settled returns how many marks were handed out, and how many messages handled and
// acknowledged; and how much is left. It names the first ones that are missing.
func (p *fleetPlay) settled(seen *Scene) (marks, jobs, acked, left int64) {
	for _, c := range p.market.customers {
		for number, handed := range c.marks {
			if handed {
				marks++
			} else {
				seen.fail("mark %s of %s was not handed out", number, c.name)
			}
		}
		for number, handled := range c.jobs {
			if handled {
				jobs++
			} else {
				seen.fail("message %s of %s was not handled", number, c.name)
			}
		}
		acked += c.acked
		left += c.left
	}
	return marks, jobs, acked, left
}
