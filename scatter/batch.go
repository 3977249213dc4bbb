package scatter

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// MaxOperations is how many counters, entries, members and scores one flush takes
// together.
const MaxOperations = 1000

// MaxBytes is how many bytes of names and values one flush takes together, unless it has
// one value alone.
const MaxBytes = script.MaxBytes

// batch is what is to be written in one call. What is added to the same counter
// several times is one operation.
type batch struct {
	ops   []*op
	known map[target]*op // nil as long as they are few
	size  int            // operations, in the sense of MaxOperations
	bytes int            // in the sense of MaxBytes; counters, which are small, have their names
	err   error          // the first thing that was wrong with it
}

// verb is what an operation does. flush.lua wants counters first, and sets and sorted
// sets, which it cannot undo, last.
type verb int

const (
	verbAdd verb = iota
	verbFloat
	verbPush
	verbInsert
	verbScore
	verbBest
	verbLeast
)

// String returns the verb as flush.lua has it.
func (v verb) String() string {
	return [...]string{"add", "float", "push", "insert", "score", "best", "least"}[v]
}

// counts reports whether it adds to a counter.
func (v verb) counts() bool { return v <= verbFloat }

// target is where an operation goes to.
type target struct {
	verb verb
	life string // as in flush.lua
	key  string
}

// op is one operation.
type op struct {
	target

	sum    int64 // of add
	float  float64
	most   int      // of push: the entries that the list keeps
	values []string // of all but counters
}

// at returns an operation on a key, to which more is to be added.
func (b *batch) at(v verb, key string, in stretch) *op {
	if err := checkTarget(key); err != nil {
		b.fail(err)
		return nil
	}
	where := target{v, in.life, key + in.suffix}
	if o := b.find(where); o != nil {
		return o
	}
	o := &op{target: where}
	b.ops = append(b.ops, o)
	if len(b.ops) == few {
		b.known = make(map[target]*op, 2*few)
		for _, o := range b.ops {
			b.known[o.target] = o
		}
	} else if len(b.ops) > few {
		b.known[where] = o
	}
	b.bytes += len(where.key)
	if v.counts() {
		b.size++
	}
	return o
}

// maxSuffix is the longest that the name of a bucket adds to that of a key.
const maxSuffix = 12

// checkTarget refuses what cannot be written to.
func checkTarget(key string) error {
	switch err := CheckKey(key); {
	case err != nil:
		return err
	case len(key) > MaxName-maxSuffix:
		return errName.Errorf("the name of a value is %d bytes long, more than %d", len(key), MaxName-maxSuffix)
	case strings.HasPrefix(key, "mr:"):
		return errName.Errorf("the name of a value begins with mr:, as all of Millrace's own keys do: %q", key)
	}
	return nil
}

func (b *batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) add(key string, n int64, in stretch) {
	o := b.at(verbAdd, key, in)
	if o == nil {
		return
	}
	if sum := o.sum + n; (sum < o.sum) != (n < 0) {
		b.fail(ErrOverflow.Errorf("the sum of %q does not fit into 64 bits", key))
	} else {
		o.sum = sum
	}
}

func (b *batch) addFloat(key string, x float64, in stretch) {
	if !finite(x) {
		b.fail(millrace.ErrBadArgument.Errorf("%v cannot be added to %q", x, key))
		return
	}
	o := b.at(verbFloat, key, in)
	if o == nil {
		return
	}
	if sum := o.float + x; !finite(sum) {
		b.fail(ErrOverflow.Errorf("the sum of %q does not fit into 64 bits", key))
	} else {
		o.float = sum
	}
}

func (b *batch) push(key string, most int, packed string, in stretch) {
	b.bytes += len(packed)
	if o := b.at(verbPush, key, in); o != nil {
		o.most = most
		o.values = append(o.values, packed)
		b.size++
	}
}

func (b *batch) insert(key string, members []string, in stretch) {
	for _, member := range members {
		b.member(key, member)
	}
	if o := b.at(verbInsert, key, in); o != nil {
		o.values = append(o.values, members...)
		b.size += len(members)
	}
}

// member counts a member, and refuses one that is too large.
func (b *batch) member(key, member string) {
	if b.bytes += len(member); len(member) > MaxBody {
		b.fail(millrace.ErrTooLarge.Errorf("a member of %q has %d bytes, more than %d", key, len(member), MaxBody))
	}
}

// score is for the three verbs that change scores.
func (b *batch) score(v verb, key, member string, score float64, in stretch) {
	b.member(key, member)
	if o := b.at(v, key, in); o != nil {
		o.values = append(o.values, member, decimal(score))
		b.size++
	}
}

// has reports whether the batch has such an operation on the key.
func (b *batch) has(v verb, key string, in stretch) bool {
	return b.find(target{v, in.life, key + in.suffix}) != nil
}

// few is how many operations are looked through faster than a map is made.
const few = 50

// find returns the operation of a target, nil for none.
func (b *batch) find(where target) *op {
	if b.known != nil {
		return b.known[where]
	}
	for _, o := range b.ops {
		if o.target == where {
			return o
		}
	}
	return nil
}

// check returns what keeps the batch from being sent.
func (b *batch) check() error {
	if b.err == nil && b.size > MaxOperations {
		e := millrace.ErrBadArgument.Errorf("a session has %d operations, more than %d", b.size, MaxOperations)
		e.Hint = "Flush more often; a session is one call, which is done wholly or not at all."
		return e
	}
	if b.err == nil && b.bytes > MaxBytes && b.size > 1 {
		e := millrace.ErrTooLarge.Errorf("a session has %d bytes, more than %d", b.bytes, MaxBytes)
		e.Hint = "Flush more often; a session is one call, which is done wholly or not at all."
		return e
	}
	return b.err
}

// args returns the operations as flush.lua wants them, behind what comes first: counters
// of the same life are one run, and each other operation is its own, in the order in which
// they came.
func (b *batch) args(first string) []string {
	ops := slices.SortedStableFunc(slices.Values(b.ops), func(x, y *op) int {
		if order := cmp.Compare(min(x.verb, verbInsert), min(y.verb, verbInsert)); order != 0 || !x.verb.counts() {
			return order
		}
		return cmp.Compare(x.life, y.life)
	})
	args := append(make([]string, 0, 1+4*len(ops)+2*b.size), first)
	run, count := target{}, 0 // the run that is open, and where it says how many values it has
	for _, o := range ops {
		if next := (target{verb: o.verb, life: o.life}); next != run || !o.verb.counts() || len(args) == 1 {
			run, count = next, len(args)+2
			args = append(args, o.verb.String(), o.life, "")
		}
		args = append(args, o.key)
		switch o.verb {
		case verbAdd:
			args = append(args, strconv.FormatInt(o.sum, 10))
		case verbFloat:
			args = append(args, decimal(o.float))
		case verbPush:
			args = append(args, strconv.Itoa(o.most))
			o.values = o.values[max(0, len(o.values)-o.most):]
		case verbInsert, verbScore, verbBest, verbLeast:
		}
		args = append(args, o.values...)
		args[count] = strconv.Itoa(len(args) - count - 1)
	}
	return args
}

// decimal returns the shortest text that stands for x and no other number.
func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
