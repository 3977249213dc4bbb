package scatter

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	maxOperations = 1000 // counters, entries, members and scores of one flush

	// maxBytes bounds the names and values of one flush, unless it has a single value.
	maxBytes = script.MaxBytes

	// maxSuffix is the longest suffix of a bucket.
	maxSuffix = 12
)

// batch has the operations of one call. Additions to the same counter are one operation.
type batch struct {
	ops   []*op
	known map[target]*op
	size  int   // counted against maxOperations
	bytes int   // counted against maxBytes; for a counter, which is small, that of its name
	err   error // the first invalid operation
}

// verb is the kind of an operation. flush.lua needs counters first, and sets and sorted sets,
// which it cannot undo, last. The verbs of scores are in the order of Merge.
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

// String returns the name in flush.lua.
func (v verb) String() string {
	return [...]string{"add", "float", "push", "insert", "score", "best", "least"}[v]
}

func (v verb) counts() bool { return v <= verbFloat }

type target struct {
	verb verb
	life string // see flush.lua
	key  string
}

type op struct {
	target

	sum    int64 // of add
	float  float64
	most   int      // of push: the entries that the list keeps
	values []string // of all but counters
}

// at returns the operation on a key, a new one if there is none.
func (b *batch) at(v verb, key string, in interval) *op {
	if err := checkTarget(key); err != nil {
		b.fail(err)
		return nil
	}
	where := target{v, in.life, key + in.suffix}
	if o := b.known[where]; o != nil {
		return o
	}
	o := &op{target: where}
	b.ops = append(b.ops, o)
	if b.known == nil {
		b.known = map[target]*op{}
	}
	b.known[where] = o
	b.bytes += len(where.key)
	if v.counts() {
		b.size++
	}
	return o
}

func checkKey(key string) error { return names.CheckText(errName, "name of a value", key, maxName) }

// checkTarget refuses keys that sessions must not write.
func checkTarget(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(key) > maxName-maxSuffix {
		return errName.Errorf("the name of a value is %d bytes long, more than %d", len(key), maxName-maxSuffix)
	}
	return nil
}

func (b *batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) add(key string, n int64, in interval) {
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

func (b *batch) addFloat(key string, x float64, in interval) {
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

// put adds values to an operation, which count as size operations.
func (b *batch) put(v verb, key string, in interval, size int, values ...string) *op {
	o := b.at(v, key, in)
	if o != nil {
		o.values = append(o.values, values...)
		b.size += size
	}
	return o
}

// member counts the bytes of a member, and refuses one that is too large.
func (b *batch) member(key, member string) {
	if b.bytes += len(member); len(member) > maxBody {
		b.fail(millrace.ErrTooLarge.Errorf("a member of %q has %d bytes, more than %d", key, len(member), maxBody))
	}
}

// check returns why the batch cannot be sent.
func (b *batch) check() error {
	const hint = "Flush more often; a session is one call, which applies completely or not at all."
	switch {
	case b.err != nil:
		return b.err
	case b.size > maxOperations:
		return millrace.ErrBadArgument.Errorf("a session has %d operations, more than %d", b.size, maxOperations).WithHint(hint)
	case b.bytes > maxBytes && b.size > 1:
		return millrace.ErrTooLarge.Errorf("a session has %d bytes, more than %d", b.bytes, maxBytes).WithHint(hint)
	}
	return nil
}

// args returns the arguments of flush.lua: first, and then the operations. Counters of the same
// life are one run; each other operation is a run of its own, in order.
func (b *batch) args(first string) []string {
	ops := slices.SortedStableFunc(slices.Values(b.ops), func(x, y *op) int {
		if order := cmp.Compare(min(x.verb, verbInsert), min(y.verb, verbInsert)); order != 0 || !x.verb.counts() {
			return order
		}
		return cmp.Compare(x.life, y.life)
	})
	args := append(make([]string, 0, 1+4*len(ops)+2*b.size), first)
	run, count := target{}, 0 // the current run, and the position of its number of values
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

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
