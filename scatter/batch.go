package scatter

import (
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
	known map[target]*op
	size  int   // operations, in the sense of MaxOperations
	bytes int   // in the sense of MaxBytes; counters, which are small, have their names
	err   error // the first thing that was wrong with it
}

// target is where an operation goes to.
type target struct {
	kind string // as in flush.lua
	key  string
	life string // as in flush.lua
}

// op is one operation.
type op struct {
	target

	sum    int64    // of add
	float  float64  // of float
	most   int      // of push
	values []string // of all others
}

// at returns the operation of a kind on a key, of which more is to be written.
func (b *batch) at(kind, key string, in stretch) *op {
	if err := checkTarget(key); err != nil {
		b.fail(err)
		return nil
	}
	where := target{kind: kind, key: key + in.suffix, life: in.life}
	if o := b.known[where]; o != nil {
		return o
	}
	o := &op{target: where}
	if b.known == nil {
		b.known = map[target]*op{}
	}
	b.known[where] = o
	b.ops = append(b.ops, o)
	b.bytes += len(where.key)
	if kind == "add" || kind == "float" {
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
		return errName.Saying("the name of a value is %d bytes long, more than %d", len(key), MaxName-maxSuffix)
	case strings.HasPrefix(key, "mr:"):
		return errName.Saying("the name of a value begins with mr:, as all of Millrace's own keys do: %q", key)
	}
	return nil
}

func (b *batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) add(key string, n int64, in stretch) {
	o := b.at("add", key, in)
	if o == nil {
		return
	}
	if sum := o.sum + n; (sum < o.sum) != (n < 0) {
		b.fail(ErrOverflow.Saying("the sum of %q does not fit into 64 bits", key))
	} else {
		o.sum = sum
	}
}

func (b *batch) addFloat(key string, x float64, in stretch) {
	if !finite(x) {
		b.fail(millrace.ErrBadArgument.Saying("%v cannot be added to %q", x, key))
		return
	}
	o := b.at("float", key, in)
	if o == nil {
		return
	}
	if sum := o.float + x; !finite(sum) {
		b.fail(ErrOverflow.Saying("the sum of %q does not fit into 64 bits", key))
	} else {
		o.float = sum
	}
}

func (b *batch) push(key string, most int, packed string, in stretch) {
	b.bytes += len(packed)
	if o := b.at("push", key, in); o != nil {
		o.most = most
		o.values = append(o.values, packed)
		b.size++
	}
}

func (b *batch) insert(key string, members []string, in stretch) {
	for _, member := range members {
		b.member(key, member)
	}
	if o := b.at("insert", key, in); o != nil {
		o.values = append(o.values, members...)
		b.size += len(members)
	}
}

// member counts a member, and refuses one that is too large.
func (b *batch) member(key, member string) {
	if b.bytes += len(member); len(member) > MaxBody {
		b.fail(millrace.ErrTooLarge.Saying("a member of %q has %d bytes, more than %d", key, len(member), MaxBody))
	}
}

// score is for the three kinds that change scores.
func (b *batch) score(kind, key, member string, score float64, in stretch) {
	b.member(key, member)
	if o := b.at(kind, key, in); o != nil {
		o.values = append(o.values, member, decimal(score))
		b.size++
	}
}

// has reports whether the batch has an operation of that kind on the key.
func (b *batch) has(kind, key string, in stretch) bool {
	return b.known[target{kind: kind, key: key + in.suffix, life: in.life}] != nil
}

// split returns the counters of a batch, so many at a time.
func (b *batch) split(most int) []*batch {
	var parts []*batch
	for ops := range slices.Chunk(b.ops, most) {
		parts = append(parts, &batch{ops: ops, size: len(ops)})
	}
	return parts
}

// check returns what keeps the batch from being sent.
func (b *batch) check() error {
	if b.err == nil && b.size > MaxOperations {
		e := millrace.ErrBadArgument.Saying("a session has %d operations, more than %d", b.size, MaxOperations)
		e.Hint = "Flush more often; a session is one call, which is done wholly or not at all."
		return e
	}
	if b.err == nil && b.bytes > MaxBytes && b.size > 1 {
		e := millrace.ErrTooLarge.Saying("a session has %d bytes, more than %d", b.bytes, MaxBytes)
		e.Hint = "Flush more often; a session is one call, which is done wholly or not at all."
		return e
	}
	return b.err
}

// args returns the operations as flush.lua wants them.
func (b *batch) args() []string {
	args := make([]string, 0, 5*len(b.ops)+2*b.size)
	for _, o := range b.ops {
		var values []string
		switch o.kind {
		case "add":
			values = []string{strconv.FormatInt(o.sum, 10)}
		case "float":
			values = []string{decimal(o.float)}
		case "push":
			values = append([]string{strconv.Itoa(o.most)}, o.values[max(0, len(o.values)-o.most):]...)
		default:
			values = o.values
		}
		args = append(args, o.kind, o.key, o.life, strconv.Itoa(len(values)))
		args = append(args, values...)
	}
	return args
}

// decimal returns the shortest text that stands for x and no other number.
func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
