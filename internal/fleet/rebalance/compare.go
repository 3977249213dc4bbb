package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/ring"
)

// wentBack is the error of a step that needs a partition whose tags are not compared yet.
func wentBack(partition int) error {
	return fleet.ErrUnavailable.Errorf("partition %d has the data of an earlier time, and its tags are being compared with those of the others", partition)
}

// stays is the error of a tag that is not moved from or to such a partition.
func stays(tag string, partition int) error {
	return ErrTaken.Errorf("%q stays where it is", tag).Wrap(wentBack(partition)).
		WithHint("Repeat the call when all partitions answer, and agents have compared the tags.")
}

// Compare brings the tags of a partition that went back in time in line with the records of
// another one, by the word of both elected masters. Package restored says which state leads to
// which result. It calls mark with tags that have lost something, before their records
// change, so a call that was cut off can be repeated. It reports whether it found nothing to
// change and nothing to wait for: until then it is to be repeated.
//
// It deals with the tag named first before all others and without mark, which may need it.
func (m *Mover) Compare(ctx context.Context, partition, with int, first string, mark func(tags []string) error) (done bool, err error) {
	points, err := m.fleetMap().Ring()
	if err != nil {
		return false, err
	}
	c := &comparison{Mover: m, here: partition, there: with, first: first, ring: points, mark: mark, given: map[int][]string{}, done: true}
	if err := m.pages(ctx, partition, func(page []tagRecord) error { return c.homes(ctx, page) }); err != nil {
		return false, err
	}
	for _, to := range slices.Sorted(maps.Keys(c.given)) {
		if err := c.give(ctx, to, c.given[to]); err != nil {
			return false, err
		}
	}
	err = m.pages(ctx, with, func(page []tagRecord) error { return c.named(ctx, page) })
	return c.done && err == nil, err
}

// comparison is one call of Compare.
type comparison struct {
	*Mover
	here, there int
	first       string
	ring        *ring.Ring
	mark        func(tags []string) error
	given       map[int][]string // tags that are here, and by the record of a partition there
	done        bool
}

// homes looks for tags of the restored partition that have another home by the other one's
// records, and for tags that it sends there and that are not there.
func (c *comparison) homes(ctx context.Context, page []tagRecord) error {
	for _, r := range page { // of a giving up that was cut off, or that the old data has
		if r.isIn(c.here) && strings.HasPrefix(r.Token, restoredRun+".") {
			if err := ignoreTaken(c.exchange(ctx, "go on", c.here, r.tag, r.text, homeText(c.here))); err != nil {
				return err
			}
		}
	}
	mine, sent := tagsIn(page, c.here), tagsIn(page, c.there)
	there, back, err := c.ask(ctx, c.there, append(mine, sent...)...)
	if err != nil {
		return err
	}
	c.collect(c.there, back, there[:len(mine)])
	var changes []change
	var lost []string
	for _, r := range there[len(mine):] {
		before := page[slices.IndexFunc(page, func(p tagRecord) bool { return p.tag == r.tag })]
		to, _, going := before.to()
		switch {
		case r.text != "":
		case going && to == c.there: // the keys are still here
			changes = append(changes, change{c.there, r, homeText(c.here)}, change{c.here, before, homeText(c.here)})
		default:
			lost = append(lost, r.tag)
		}
	}
	if err := c.correct(ctx, changes, lost); err != nil {
		return err
	}
	named := map[int][]tagRecord{} // tags that a record there sends to a third partition
	for _, r := range there[:len(mine)] {
		if r.text != "" && r.Home != c.here && r.Home != c.there {
			named[r.Home] = append(named[r.Home], r)
		}
	}
	for third, records := range named {
		tags := make([]string, len(records))
		for i, r := range records {
			tags[i] = r.tag
		}
		at, back, err := c.ask(ctx, third, tags...)
		if err != nil {
			return err
		}
		c.collect(third, back, at)
		var changes []change
		for i, r := range records {
			if at[i].text == "" {
				changes = append(changes, change{c.there, r, homeText(c.here)})
			}
		}
		if err := c.correct(ctx, changes, nil); err != nil {
			return err
		}
	}
	return nil
}

// collect notes the tags that are in that partition, too. If both went back, one of them gives the
// tag up.
func (c *comparison) collect(partition int, back bool, there []tagRecord) {
	for _, tag := range tagsIn(there, partition) {
		c.done = false
		if !back || !c.stays(tag, partition) {
			c.given[partition] = append(c.given[partition], tag)
		}
	}
}

// stays reports whether a tag that two restored partitions have stays here. Nothing tells which data
// is newer, so the ring decides: a tag is placed by one of its owners. It comes to any other
// partition only by a move, and to a newer owner by one from an older.
func (c *comparison) stays(tag string, other int) bool {
	owners := c.ring.Candidates(ring.Position(tag))
	here, there := slices.Index(owners, c.here), slices.Index(owners, other)
	return here < there || here == there && c.here < other
}

// named looks for tags that the other partition sends here, and that are not here, and for tags
// there of which the record by which clients find them is lost here.
func (c *comparison) named(ctx context.Context, page []tagRecord) error {
	if err := c.lostMoves(ctx, page); err != nil {
		return err
	}
	page = slices.DeleteFunc(slices.Clone(page), func(r tagRecord) bool { return !r.isIn(c.here) && (!r.isIn(c.there) || !c.leads(r)) })
	tags := make([]string, len(page))
	for i, r := range page {
		tags[i] = r.tag
	}
	here, _, err := c.ask(ctx, c.here, tags...)
	if err != nil {
		return err
	}
	_, back, err := c.ask(ctx, c.there)
	if err != nil {
		return err
	}
	var changes []change
	var lost []string
	for i, r := range page {
		to, run, going := r.to()
		if third := here[i].Home; going && to == c.here && here[i].text != "" && third != c.here && third != c.there {
			at, _, err := c.ask(ctx, third, r.tag)
			if err != nil {
				return err
			}
			if at[0].isIn(third) {
				continue // it went on, and an agent removes the mark
			}
		}
		going = going && to == c.here // keys may be left there
		from, by, came := here[i].from()
		circle := here[i].isIn(c.there)
		switch {
		case r.isIn(c.there):
			after := homeText(c.there)
			if from, run, came := r.from(); came && from == c.here {
				after = trip{from, c.there, run}.gone() // an agent completes the move
			}
			next := here[i].text
			if next != "" && here[i].Home != c.here && here[i].Home != c.there { // the third one may have lost its record
				if next, _, err = c.read(ctx, here[i].Home, r.tag); err != nil {
					return err
				}
			}
			if next == "" {
				changes = append(changes, change{c.here, here[i], after})
			}
		case here[i].isIn(c.here) && (!going || came && from == c.there && by == run):
		case here[i].isIn(c.here): // it may have come, or be older, or be another one that a client has begun
			changes = append(changes, change{c.there, r, homeText(c.here)})
		case circle && back && !c.stays(r.tag, c.there):
			c.done = false // the other one corrects it
		case going: // the arrival is lost, and the keys are where they were
			if !circle {
				changes = append(changes, change{c.here, here[i], homeText(c.there)})
			}
			changes = append(changes, change{c.there, r, homeText(c.there)})
		case circle:
			changes = append(changes, change{c.here, here[i], homeText(c.here)})
		default:
			lost = append(lost, r.tag)
		}
	}
	return c.correct(ctx, changes, lost)
}

// lostMoves waits for the comparison of a third partition that went back, too, and has lost moves
// from the other one: then the tags are there again, and clients may have to be sent there from here.
func (c *comparison) lostMoves(ctx context.Context, page []tagRecord) error {
	moved := map[int][]string{}
	for _, r := range page {
		if to, _, going := r.to(); going && r.Home == to && to != c.here && to != c.there {
			moved[to] = append(moved[to], r.tag)
		}
	}
	for third, tags := range moved {
		at, back, err := c.ask(ctx, third, tags...)
		if err != nil {
			return err
		}
		c.done = c.done && (!back || len(tagsIn(at, third)) >= len(tags))
	}
	return nil
}

// leads reports whether clients may be sent here for a tag that is in the other partition: by the
// ring, or by the record of a third one, if the tag has just left from here.
func (c *comparison) leads(r tagRecord) bool {
	if from, _, came := r.from(); came && from == c.here {
		return true
	}
	owners := c.ring.Candidates(ring.Position(r.tag))
	return slices.Contains(owners, c.here) && !slices.Contains(owners, c.there)
}

// change is a new record of a tag.
type change struct {
	partition int
	before    tagRecord
	after     string
}

// correct marks the lost tags and those whose records it changes, and changes these.
func (c *comparison) correct(ctx context.Context, changes []change, lost []string) error {
	var first, others []change
	for _, ch := range changes {
		if c.done = false; ch.before.tag == c.first {
			first = append(first, ch)
		} else {
			others, lost = append(others, ch), append(lost, ch.before.tag)
		}
	}
	if err := c.apply(ctx, first); err != nil {
		return err
	}
	if len(lost) > 0 {
		if err := c.mark(slices.Compact(lost)); err != nil {
			return err
		}
	}
	return c.apply(ctx, others)
}

// apply changes records, one after the other. If the first change of a tag is refused, since a
// client began the tag anew or another agent was here, it leaves out the second.
func (c *comparison) apply(ctx context.Context, changes []change) error {
	taken := map[string]bool{}
	for _, ch := range changes {
		if taken[ch.before.tag] {
			continue
		}
		err := c.exchange(ctx, "correct", ch.partition, ch.before.tag, ch.before.text, ch.after)
		if taken[ch.before.tag] = errors.Is(err, ErrTaken); ignoreTaken(err) != nil {
			return err
		}
	}
	return nil
}

// give gives tags up in favour of a partition that has them, too. Writes of clients made here
// since the partition went back are lost.
//
//	record here           clients
//
//	HERE                  remember this partition
//	HERE +restored.TO     use it, and look it up each time
//	│ until no client remembers it
//	HERE !restored.TO     read here; writers wait
//	│ until no write in flight can succeed
//	│ the tags are marked
//	TO +to.TO.restored    use TO; an agent deletes the keys here. If TO went back, too, its
//	                      comparison with this partition removes the mark, and the keys stay
//
// If mark fails, the tags stay here.
func (c *comparison) give(ctx context.Context, to int, tags []string) error {
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if i := slices.Index(tags, c.first); i >= 0 && len(tags) > 1 {
		if err := c.give(ctx, to, []string{c.first}); err != nil {
			return err
		}
		tags = slices.Delete(tags, i, i+1)
	}
	record := func(step, after string, tags []string) error {
		return each(ctx, tags, func(tag string) error {
			before, r, err := c.read(ctx, c.here, tag)
			if err != nil || before == "" || r.Home != c.here {
				return err
			}
			return ignoreTaken(c.exchange(ctx, step, c.here, tag, before, after))
		})
	}
	token := fmt.Sprintf("%s.%d", restoredRun, to)
	if err := record("give up", markedText(c.here, members.Leaving, token), tags); err != nil {
		return err
	}
	if err := c.wait(ctx, "until forgotten", c.times().remembered); err != nil {
		return err
	}
	if err := record("stop", markedText(c.here, members.Moving, token), tags); err != nil {
		return err
	}
	err := c.wait(ctx, "until written", c.times().inFlight)
	if err == nil && !slices.Equal(tags, []string{c.first}) {
		err = c.mark(tags)
	}
	var still []tagRecord
	if err == nil {
		still, _, err = c.ask(ctx, to, tags...)
	}
	if err != nil {
		late, cancel := c.late(ctx)
		defer cancel()
		ctx = late
		_ = record("go on", homeText(c.here), tags) // writers need not wait for the next try
		return err
	}
	there := tagsIn(still, to)
	if err := record("yield", trip{from: c.here, to: to, run: restoredRun}.gone(), there); err != nil {
		return err
	}
	gone := slices.DeleteFunc(tags, func(tag string) bool { return slices.Contains(there, tag) })
	return record("go on", homeText(c.here), gone)
}
