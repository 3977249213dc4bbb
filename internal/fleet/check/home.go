package check

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/ring"
)

// maxHops is how many records in a row may each name the next one, as in package fleet.
const maxHops = 4

// tagState is a tag as one partition has it.
type tagState struct {
	tag string
	key string // one of its keys there; empty if only a record was seen

	here *members.Record // the record there, nil if there is none

	asked  int   // how many of its owners were asked
	found  bool  // whether one of them has a record
	hops   []int // the partitions to which the records lead, from that one on
	home   int   // the last one
	lost   bool  // whether they lead in a circle, or nowhere
	marked bool  // whether it is being moved or forgotten
	silent bool  // whether it cannot be judged
	by     int   // the partition that says nothing then
}

// judge returns the fault of a tag in a partition; its severity is OK if there is none.
func (s *tagState) judge(id int) Finding {
	is := func(severity finding.Severity, code, text, advice string) Finding {
		return Finding{"", finding.New(severity, code, fmt.Sprintf("tag %q ", s.tag)+text, advice), id, ""}
	}
	const byHand = "Compare both by hand, and delete what is wrong: keys with UNLINK, or the record with DEL."
	isHome := s.here != nil && s.here.Home == id
	switch {
	case s.lost:
		return is(finding.Critical, "lost", fmt.Sprintf("is not found: the records of partitions %v lead to none that has it", s.hops), byHand)
	case isHome && !s.found:
		return is(finding.Critical, "unreachable", "has its home here, and no partition that is asked for it knows that: a write places it elsewhere", "Write a record that names this partition into the owner's: millrace fleet locate shows it.")
	case isHome && s.home != id:
		return is(finding.Critical, "two_homes", fmt.Sprintf("has two homes: the record here says so, and clients find it in partition %d", s.home), byHand)
	case s.here != nil && !isHome && s.key != "":
		return is(finding.Critical, "stray_keys", fmt.Sprintf("has keys here, and its home is partition %d", s.here.Home), byHand)
	case s.here == nil && s.key != "" && s.found && s.home != id:
		return is(finding.Warning, "foreign_keys", fmt.Sprintf("has keys here that no client of the fleet placed, and its home is partition %d", s.home), "If it is no counter over several servers: "+byHand)
	}
	return Finding{}
}

// follow finds the home of tags as clients do: it asks the partitions that ever owned a tag,
// the newest owner first, and then those that records name. It asks for many tags at once.
func (t *tagger) follow(ctx context.Context, all []*tagState) {
	pending := slices.Clone(all)
	for len(pending) > 0 {
		next := map[int][]*tagState{}
		for _, s := range pending {
			if id, ok := t.next(s); ok {
				next[id] = append(next[id], s)
			}
		}
		pending = nil
		for _, id := range slices.Sorted(maps.Keys(next)) {
			records, err := t.records(ctx, id, next[id])
			for i, s := range next[id] {
				if err != nil {
					s.silent, s.by = true, id
					continue
				}
				t.step(s, id, records[i])
				pending = append(pending, s)
			}
		}
	}
}

// next returns the partition to ask for a tag, unless its home is known.
func (t *tagger) next(s *tagState) (id int, ok bool) {
	if s.found {
		return s.home, s.home != s.hops[len(s.hops)-1] && !s.lost
	}
	candidates := t.ring.Candidates(ring.Position(s.tag))
	if s.asked == len(candidates) {
		return 0, false
	}
	return candidates[s.asked], true
}

// step takes the record that a partition has of a tag, nil for none.
func (t *tagger) step(s *tagState, id int, r *members.Record) {
	if s.asked++; r == nil && !s.found {
		return
	}
	s.found, s.hops, s.home = true, append(s.hops, id), id // it may be forwarded to here, and not written since
	if r != nil {
		s.home, s.marked = r.Home, s.marked || r.Mark != members.Unmarked
	}
	s.lost = s.home != id && (slices.Contains(s.hops, s.home) || len(s.hops) > maxHops || s.home >= len(t.f.m.Partitions))
}
