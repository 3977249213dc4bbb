package scatter

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
)

// kind is what a key is read as, in the words of read.lua.
type kind string

const (
	kindNumber kind = "number"
	kindList   kind = "list"
	kindSet    kind = "set"
	kindScores kind = "scores"
)

// Entry is an entry of a list.
type Entry struct {
	// At is when it was written, by the clock of the server, to the millisecond.
	At time.Time

	// Body is what was written.
	Body []byte

	// Server is the name of the server that has it.
	Server string
}

// Merge says what score a member has that several servers know.
type Merge int

// The ways to merge scores.
const (
	Sum Merge = iota // for scores that were added up
	Max              // for the best ones
	Min              // for the least ones
)

// Scored is a member of a sorted set.
type Scored struct {
	Member string
	Score  float64
}

// check refuses what cannot be merged: what is of another kind, and what is more than
// a gather may hold.
func check(parts []part, a ask, most int) error {
	members := 0
	for _, p := range parts {
		if p.bad {
			return ErrType.Errorf("the key %q holds something else than a %s on server %s", a.key, a.kind.word(), p.server)
		}
		if a.kind == kindScores {
			members += len(p.texts) / 2
		} else {
			members += len(p.texts)
		}
		members += p.many
	}
	if a.kind != kindNumber && members > most {
		return ErrTooMany.Errorf("the servers have %d members of %q, and a gather may hold %d", members, a.key, most)
	}
	return nil
}

// word is how people call what has that kind.
func (k kind) word() string {
	if k == kindScores {
		return "sorted set"
	}
	return string(k)
}

// sumInts adds counters up. Only the sum must fit, whatever the order is.
func sumInts(parts []part) (int64, error) {
	sum := new(big.Int)
	for _, p := range parts {
		for _, text := range p.texts {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, p.unreadable("whole number", text)
			}
			sum.Add(sum, big.NewInt(n))
		}
	}
	if !sum.IsInt64() {
		return 0, ErrOverflow.Errorf("the sum of %q over the servers, %v, does not fit into 64 bits", parts[0].key, sum)
	}
	return sum.Int64(), nil
}

// sumFloats adds counters of floats up.
func sumFloats(parts []part) (float64, error) {
	sum := 0.0
	for _, p := range parts {
		for _, text := range p.texts {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || !finite(x) {
				return 0, p.unreadable("number", text)
			}
			sum += x
		}
	}
	if !finite(sum) {
		return 0, ErrOverflow.Errorf("the sum of %q over the servers is larger than a float64 can be", parts[0].key)
	}
	return sum, nil
}

func (p part) unreadable(what, text string) error {
	return ErrType.Errorf("the key %q holds no %s on server %s: %.40q", p.key, what, p.server, text)
}

// union returns the members of all, each once, in byte order.
func union(parts []part) ([]string, error) {
	seen := map[string]struct{}{}
	for _, p := range parts {
		for _, member := range p.texts {
			seen[member] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// mergeScores returns the members with the highest scores, up to the limit if there is
// one.
func mergeScores(parts []part, merge Merge, limit int) ([]Scored, error) {
	scores := map[string]float64{}
	for _, p := range parts {
		for i := 0; i+1 < len(p.texts); i += 2 {
			score, err := strconv.ParseFloat(p.texts[i+1], 64)
			if err != nil {
				return nil, p.unreadable("score", p.texts[i+1])
			}
			if before, known := scores[p.texts[i]]; known {
				score = merge.of(before, score)
			}
			if math.IsNaN(score) {
				return nil, ErrOverflow.Errorf("the scores of a member of %q are infinite, in both directions", p.key)
			}
			scores[p.texts[i]] = score
		}
	}
	all := make([]Scored, 0, len(scores))
	for member, score := range scores {
		all = append(all, Scored{member, score})
	}
	slices.SortFunc(all, func(a, b Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Member, b.Member))
	})
	if limit > 0 && len(all) > limit {
		all = slices.Clone(all[:limit]) // the others are not kept alive
	}
	return all, nil
}

func (m Merge) of(a, b float64) float64 {
	switch m {
	case Max:
		return max(a, b)
	case Min:
		return min(a, b)
	case Sum:
	}
	return a + b
}

// mergeEntries returns the newest entries, up to the limit. Of each list the first
// entry is the newest. It takes no more of them apart than it needs.
func mergeEntries(parts []part, limit int) ([]Entry, error) {
	lists := make([]*entries, 0, len(parts))
	for _, p := range parts {
		list := &entries{part: p}
		if err := list.next(); err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	var merged []Entry
	for len(merged) < limit {
		var newest *entries
		for _, list := range lists {
			if list.first != nil && (newest == nil || list.first.At.After(newest.first.At)) {
				newest = list
			}
		}
		if newest == nil {
			break
		}
		merged = append(merged, *newest.first)
		if err := newest.next(); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// entries is what is left of a list.
type entries struct {
	part
	first *Entry // nil if nothing is left
}

// next takes the next entry apart.
func (e *entries) next() error {
	e.first = nil
	if len(e.texts) == 0 {
		return nil
	}
	at, body, err := parseEntry(e.texts[0])
	if err != nil {
		return ErrType.Errorf("the list %q on server %s has something else than entries", e.key, e.server).Wrap(err)
	}
	e.first = &Entry{At: at, Body: body, Server: e.server}
	e.texts = e.texts[1:]
	return nil
}
