package ick

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/rueidis"
)

// Added tells what an add did. Marks that changed nothing, because their member
// was marked with a lower or equal score already, are in neither count.
type Added struct {
	New     int // members that were not marked before
	Lowered int // members that now have a lower score
}

// Add marks members as dirty. A member that waits already keeps the lower score.
// A member that is reserved right now is marked again all the same, and comes
// again after it was committed. No marks at all create an empty Ick.
//
// More than 1,000 marks take several script calls, each applied whole. After a
// lost reply the library adds again; that forgets nothing, but the answer then
// counts the marks of the lost one as neither new nor lowered.
//
// Errors: [ErrScore], before anything was added; [ErrBroken], [ErrVersion],
// millrace.ErrFull, each before the call's own marks were added.
func (k *Ick) Add(ctx context.Context, marks ...Entry) (Added, error) {
	list := make([]mark, len(marks))
	for i, m := range marks {
		list[i] = mark{member: m.Member, score: m.Score}
	}
	return k.add(ctx, list)
}

// AddNow marks members as dirty since now, by the server's clock. It is Add in
// all else.
func (k *Ick) AddNow(ctx context.Context, members ...string) (Added, error) {
	list := make([]mark, len(members))
	for i, m := range members {
		list[i] = mark{member: m, now: true}
	}
	return k.add(ctx, list)
}

// mark is a member that is being added, with a score or as of the server's now.
type mark struct {
	member string
	score  float64
	now    bool
}

// check refuses marks that Redis should not be asked about.
func (k *Ick) check(marks []mark) error {
	for _, m := range marks {
		if math.IsNaN(m.score) {
			return ErrScore.Saying("the score of %q is not a number", m.member)
		}
		if m.now && k.cfg.Opaque {
			return ErrConfig.Saying("an Ick with opaque scores has no now")
		}
	}
	return nil
}

func (k *Ick) add(ctx context.Context, marks []mark) (Added, error) {
	if err := k.check(marks); err != nil {
		return Added{}, err
	}
	var sum Added
	for first := 0; first == 0 || first < len(marks); first += chunk {
		part := marks[first:min(first+chunk, len(marks))]
		before, err := k.fold(ctx, part)
		if err != nil {
			return sum, err
		}
		added := before.replay(part)
		sum.New += added.New
		sum.Lowered += added.Lowered
	}
	return sum, nil
}

// fold sends at most chunk marks and returns what the Ick held before.
func (k *Ick) fold(ctx context.Context, marks []mark) (*past, error) {
	sent := distinct(marks)
	args := make([]string, 0, 1+2*len(sent))
	if len(marks) != 1 {
		args = append(args, strconv.Itoa(len(marks)))
	}
	for _, m := range sent {
		if m.now {
			args = append(args, "now", m.member)
		} else {
			args = append(args, formatScore(m.score), m.member)
		}
	}
	reply, err := k.call(ctx, k.scripts.add, args...)
	if err != nil {
		return nil, err
	}
	if len(marks) == 1 {
		return pastOfOne(reply)
	}
	return newPast(sent, reply)
}

// distinct folds marks for the same member, except that now and a score, which
// only the server can compare, stay two.
func distinct(marks []mark) []mark {
	if len(marks) < 2 {
		return marks
	}
	type kind struct {
		member string
		now    bool
	}
	places := make(map[kind]int, len(marks))
	folded := make([]mark, 0, len(marks))
	for _, m := range marks {
		if i, ok := places[kind{m.member, m.now}]; ok {
			folded[i].score = min(folded[i].score, m.score)
			continue
		}
		places[kind{m.member, m.now}] = len(folded)
		folded = append(folded, m)
	}
	return folded
}

// past is what an Ick held of some members before marks were folded in, and
// goes forward as they are replayed.
type past struct {
	alone  Added // what a mark that was sent alone did
	now    float64
	scores map[string]float64 // of the members that waited; nil for one mark alone
}

// pastOfOne reads the reply to one mark alone, which tells what it did.
func pastOfOne(reply rueidis.RedisMessage) (*past, error) {
	outcome, err := reply.ToInt64()
	p := &past{}
	switch outcome {
	case 1:
		p.alone.New = 1
	case 2:
		p.alone.Lowered = 1
	}
	return p, err
}

func newPast(sent []mark, reply rueidis.RedisMessage) (*past, error) {
	p := &past{scores: make(map[string]float64, len(sent))}
	if len(sent) == 0 {
		return p, nil
	}
	values, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	if len(values) != len(sent)+1 {
		return nil, fmt.Errorf("ick.add answered %d scores for %d marks", len(values)-1, len(sent))
	}
	for i, m := range sent {
		if values[i].IsNil() {
			continue
		}
		if p.scores[m.member], err = values[i].AsFloat64(); err != nil {
			return nil, err
		}
	}
	p.now, err = values[len(sent)].AsFloat64()
	return p, err
}

// replay tells what marks did, as if they had been added one after the other.
func (p *past) replay(marks []mark) Added {
	if p.scores == nil {
		return p.alone
	}
	var added Added
	for _, m := range marks {
		score := m.score
		if m.now {
			score = p.now
		}
		before, marked := p.scores[m.member]
		switch {
		case !marked:
			added.New++
		case score < before:
			added.Lowered++
		default:
			continue
		}
		p.scores[m.member] = score
	}
	return added
}
