package scatter

import (
	"context"
	"errors"

	"github.com/millrace/millrace"
)

// MaxKeys is how many keys one gather reads at most.
const MaxKeys = 10_000

// Gather collects what is to be read, and then reads all of it from all servers at
// once: one call to each of them, and further ones for what is more than 1,000 keys or
// about 1 MiB. It is for one goroutine.
type Gather struct {
	s        *Scatter
	asks     []ask
	position map[ask]int // among asks
	results  []filler
	err      error // the first of what cannot be asked for
}

// ask is what the servers are asked for.
type ask struct {
	kind kind
	key  string
	most int // how many entries are read, or members may be
}

// filler is a result of some type.
type filler interface {
	fill(g *Gather, values [][]value, missing error) error
	refuse(err error)
}

// Result is a value that [Gather.Read] reads. It must not be looked at before that.
type Result[T any] struct {
	// Value is what the servers have together. It is the zero value if they have
	// nothing, and after every error but [millrace.ErrPartial].
	Value T

	// Servers is how many servers there are, and Answered how many of them are in the
	// value.
	Servers, Answered int

	// Missing are the names of the servers that are not, in the order of the group.
	Missing []string

	// Err is nil, or says what the value lacks: [millrace.ErrPartial], [ErrType],
	// [ErrOverflow], [ErrTooMany].
	Err error

	asks  []int
	merge func(parts []part) (T, error)
}

// Gather returns one that is to read nothing yet.
func (s *Scatter) Gather() *Gather { return &Gather{s: s, position: map[ask]int{}} }

// Int reads a counter: the sum over all servers. A server without it has 0.
func (g *Gather) Int(key string) *Result[int64] { return g.IntOver(key) }

// IntOver reads the sum of several counters, such as time buckets, over all servers. A
// key that is named twice counts twice.
func (g *Gather) IntOver(keys ...string) *Result[int64] {
	return want(g, kindNumber, 1, sumInts, keys...)
}

// Float reads a counter of floats: the sum over all servers, as precise as a float64. A
// server without it has 0.
func (g *Gather) Float(key string) *Result[float64] {
	return want(g, kindNumber, 1, sumFloats, key)
}

// List reads the newest entries of a list, the newest first; entries of one server stay
// in their order. The limit is from 1 to [Config.MaxMembers]. Each server sends that
// many at most, and all that is sent is held in memory, before what is beyond the limit
// is left out.
func (g *Gather) List(key string, limit int) *Result[[]Entry] {
	if limit < 1 || limit > g.s.cfg.MaxMembers {
		g.refuse(millrace.ErrBadArgument.Errorf("the limit of a list must be from 1 to %d, and is %d", g.s.cfg.MaxMembers, limit))
	}
	merge := func(parts []part) ([]Entry, error) { return mergeEntries(parts, limit) }
	return want(g, kindList, limit, merge, key)
}

// Set reads the members that any server has, in byte order. How many there are cannot
// be had for less: servers may have the same ones.
func (g *Gather) Set(key string) *Result[[]string] {
	return want(g, kindSet, g.s.cfg.MaxMembers, union, key)
}

// Scores reads the members of a sorted set, the highest score first, and those of the
// same score in byte order. The limit says how many, 0 all. What a member has that
// several servers know is said by merge. So all members of all servers are read,
// whatever the limit is.
func (g *Gather) Scores(key string, merge Merge, limit int) *Result[[]Scored] {
	if limit < 0 {
		g.refuse(millrace.ErrBadArgument.Errorf("the limit of a sorted set cannot be negative"))
	}
	if merge < Sum || merge > Min {
		g.refuse(millrace.ErrBadArgument.Errorf("there is no way %d to merge scores", merge))
	}
	of := func(parts []part) ([]Scored, error) { return mergeScores(parts, merge, limit) }
	return want(g, kindScores, g.s.cfg.MaxMembers, of, key)
}

// want adds a result to what is to be read.
func want[T any](g *Gather, kind kind, most int, merge func([]part) (T, error), keys ...string) *Result[T] {
	r := &Result[T]{merge: merge}
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			g.refuse(err)
		}
		a := ask{kind, key, most}
		i, known := g.position[a]
		if !known {
			i = len(g.asks)
			g.position[a] = i
			g.asks = append(g.asks, a)
		}
		r.asks = append(r.asks, i)
	}
	if len(g.asks) > MaxKeys {
		g.refuse(millrace.ErrBadArgument.Errorf("a gather reads %d keys at most", MaxKeys))
	}
	g.results = append(g.results, r)
	return r
}

// refuse remembers the first of what cannot be asked for.
func (g *Gather) refuse(err error) {
	if g.err == nil {
		g.err = err
	}
}

// Read reads all that was asked for, from all servers at the same time. Each call is
// answered with what there is at one moment; the moments differ. What takes several calls
// to a server has all that was there from the first to the last of them, and may have
// what was written meanwhile. Read may be called again, and then replaces what was read
// before.
//
// A server that does not answer a call within [Config.Timeout] is left out, and the error is a
// [*PartialError], joined by what else is wrong with single results.
//
// Errors: [millrace.ErrPartial], [ErrType], [ErrOverflow], [ErrTooMany]; [millrace.ErrBadName] and
// [millrace.ErrBadArgument] for what cannot be asked for, and then nobody is asked.
func (g *Gather) Read(ctx context.Context) error {
	if g.err != nil {
		for _, result := range g.results {
			result.refuse(g.err)
		}
		return g.err
	}
	values, failed := each(g.s, func(srv *server) ([]value, error) { return g.of(ctx, srv) })
	missing := partial(g.s.servers, failed)
	var wrong []error
	for _, result := range g.results {
		wrong = append(wrong, result.fill(g, values, missing))
	}
	return both(missing, errors.Join(wrong...))
}

// fill merges what the servers have of a result's keys, each in the order of what was
// asked for and nil of a server that did not answer. It returns what is wrong besides
// servers that are missing.
func (r *Result[T]) fill(g *Gather, values [][]value, missing error) error {
	var parts []part
	var wrong error
	for _, i := range r.asks {
		begin := len(parts)
		for j, srv := range g.s.servers {
			if values[j] != nil {
				parts = append(parts, part{srv.Name, g.asks[i].key, values[j][i]})
			}
		}
		if wrong == nil {
			wrong = check(parts[begin:], g.asks[i], g.s.cfg.MaxMembers)
		}
	}
	var value T
	if wrong == nil {
		value, wrong = r.merge(parts)
	}
	r.Value, r.Servers, r.Answered, r.Missing = value, len(values), len(values), nil
	if p, some := errors.AsType[*PartialError](missing); some {
		r.Answered, r.Missing = p.Answered, p.Missing
	}
	r.Err = both(missing, wrong)
	return wrong
}

// refuse says why nothing was read.
func (r *Result[T]) refuse(err error) { r.Err = err }

// both joins two errors, and leaves one alone as it is.
func both(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}
