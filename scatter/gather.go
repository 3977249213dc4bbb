package scatter

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	maxKeys     = 10_000 // of one gather
	keysPerCall = 1000
)

// Gather collects the values to read, and then reads them from all servers at once: one call to each,
// and further ones beyond 1,000 keys or about 1 MiB. It is for one goroutine.
type Gather struct {
	s        *Scatter
	asks     []ask
	position map[ask]int // in asks
	results  []filler
	err      error // the first invalid request
}

// ask is a request to all servers.
type ask struct {
	kind kind
	key  string
	most int // entries to read, or members allowed
}

// filler is a Result of any type.
type filler interface {
	fill(g *Gather, values [][]value, missing []string, err error) error
	refuse(err error)
}

// Result is a value that [Gather.Read] reads. Do not use it before.
type Result[T any] struct {
	// Value is the merged value of all servers. It is zero if they have nothing, and after
	// every error but [millrace.ErrPartial].
	Value T

	// Servers is the number of servers, and Answered how many of them are in the value.
	Servers, Answered int

	// Missing names the servers that are not, in their order.
	Missing []string

	// Err is nil, [millrace.ErrPartial], [ErrType], [ErrOverflow] or [millrace.ErrTooLarge].
	Err error

	asks  []int
	merge func(parts []part) (T, error)
}

// Gather returns a gather that reads nothing yet.
func (s *Scatter) Gather() *Gather { return &Gather{s: s, position: map[ask]int{}} }

// Int reads a counter, or several, such as time buckets: the sum over all keys and servers. A
// missing counter is 0. A key given twice counts twice.
func (g *Gather) Int(keys ...string) *Result[int64] { return want(g, kindNumber, 1, sumInts, keys...) }

// Float reads a counter of floats: the sum over all servers, with the precision of a float64. A
// missing counter is 0.
func (g *Gather) Float(key string) *Result[float64] { return want(g, kindNumber, 1, sumFloats, key) }

// List reads the newest entries of a list, the newest first; entries of one server stay in
// order. The limit is from 1 to [Config.MaxMembers]. Each server sends that many, and all of
// them are held in memory before the limit applies.
func (g *Gather) List(key string, limit int) *Result[[]Entry] {
	if limit < 1 || limit > g.s.cfg.MaxMembers {
		g.refuse(millrace.ErrBadArgument.Errorf("the limit of a list must be from 1 to %d, and is %d", g.s.cfg.MaxMembers, limit))
	}
	merge := func(parts []part) ([]Entry, error) { return mergeEntries(parts, limit) }
	return want(g, kindList, limit, merge, key)
}

// Set reads the members on any server, in byte order. Even their number costs as much, because
// servers may have the same members.
func (g *Gather) Set(key string) *Result[[]string] {
	return want(g, kindSet, g.s.cfg.MaxMembers, union, key)
}

// Scores reads the members of a sorted set, the highest score first, equal scores in byte order.
// The limit is their number, 0 for all; whatever it is, all members of all servers are read.
// The score of a member on several servers is merged.
func (g *Gather) Scores(key string, merge Merge, limit int) *Result[[]Scored] {
	if limit < 0 {
		g.refuse(millrace.ErrBadArgument.Errorf("the limit of a sorted set cannot be negative"))
	}
	if merge < Sum || merge > Min {
		g.refuse(errMerge(merge))
	}
	of := func(parts []part) ([]Scored, error) { return mergeScores(parts, merge, limit) }
	return want(g, kindScores, g.s.cfg.MaxMembers, of, key)
}

func want[T any](g *Gather, kind kind, most int, merge func([]part) (T, error), keys ...string) *Result[T] {
	r := &Result[T]{merge: merge}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
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
	if len(g.asks) > maxKeys {
		g.refuse(millrace.ErrBadArgument.Errorf("a gather reads %d keys at most", maxKeys))
	}
	g.results = append(g.results, r)
	return r
}

// refuse stores the first invalid request.
func (g *Gather) refuse(err error) {
	if g.err == nil {
		g.err = err
	}
}

// Read reads everything from all servers at the same time. Each reply is a consistent moment of
// one server; the moments differ. A value that takes several calls has all entries that existed from
// the first to the last, and perhaps entries written meanwhile. A repeated Read replaces the
// results.
//
// A server that does not answer within [Config.Timeout] is left out, and the error is
// [millrace.ErrPartial] with its name, joined with the errors of single results.
//
// Errors: [millrace.ErrPartial], [ErrType], [ErrOverflow], [millrace.ErrTooLarge] for more
// members than MaxMembers; [millrace.ErrBadName] and [millrace.ErrBadArgument] before anything
// is sent.
func (g *Gather) Read(ctx context.Context) error {
	if g.err != nil {
		for _, result := range g.results {
			result.refuse(g.err)
		}
		return g.err
	}
	values, failed := each(g.s, func(srv *server) ([]value, error) { return g.of(ctx, srv) })
	missing, err := partial(g.s.servers, failed)
	wrong := []error{err}
	for _, result := range g.results {
		wrong = append(wrong, result.fill(g, values, missing, err))
	}
	return errors.Join(wrong...)
}

// fill merges the values of a result, which are in the order of asks for each server and nil of
// a missing one. It returns errors other than missing servers.
func (r *Result[T]) fill(g *Gather, values [][]value, missing []string, err error) (wrong error) {
	var parts []part
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
	r.Value, r.Servers, r.Answered, r.Missing = value, len(values), len(values)-len(missing), missing
	r.Err = errors.Join(err, wrong)
	return wrong
}

func (r *Result[T]) refuse(err error) { r.Err = err }

type value struct {
	texts []string
	bad   bool // another type
	many  int  // the number of members, if they are too many to be sent
}

// part is a value with its origin.
type part struct {
	server, key string
	value
}

// of reads the values of a server, in as few calls as possible.
func (g *Gather) of(ctx context.Context, srv *server) ([]value, error) {
	var values []value
	for asks := range script.Chunks(g.asks, keysPerCall, func(a ask) int { return len(a.key) }) {
		for next := ""; len(asks) > 0; {
			begun := next != ""
			args := []string{next}
			for i, a := range asks {
				if i == 0 && begun && a.kind == kindList {
					a.most -= len(values[len(values)-1].texts)
				}
				args = append(args, string(a.kind), a.key, strconv.Itoa(a.most))
			}
			reply, err := g.s.on(ctx, srv, func(ctx context.Context, l *link) (*script.Reply, error) {
				return l.Run(ctx, "read", g.s.base, args...)
			})
			if err != nil {
				return nil, err
			}
			for next = reply.Text(); ; asks = asks[1:] {
				if !begun {
					values = append(values, value{})
				}
				values[len(values)-1].add(asks[0].kind, int(reply.Int()), reply.Texts(), begun)
				if begun = false; !reply.More() || len(asks) == 1 {
					break
				}
			}
			if err := reply.Err(); err != nil {
				return nil, err
			}
			if next == "" {
				asks = asks[1:]
			}
		}
	}
	return values, nil
}

// add adds a reply of read.lua. A continued set may repeat members.
func (v *value) add(kind kind, state int, texts []string, again bool) {
	switch {
	case state != 0:
		*v = value{bad: state == -1, many: max(0, state)}
	case !again:
		v.texts = texts
	case kind == kindSet:
		v.texts = append(v.texts, texts...)
		slices.Sort(v.texts)
		v.texts = slices.Compact(v.texts)
	case kind == kindScores:
		v.texts = latest(append(v.texts, texts...))
	default:
		v.texts = append(v.texts, texts...)
	}
}

// latest keeps each member once, with its last score.
func latest(pairs []string) []string {
	at := make(map[string]int, len(pairs)/2)
	kept := pairs[:0]
	for i := 0; i+1 < len(pairs); i += 2 {
		if j, known := at[pairs[i]]; known {
			kept[j+1] = pairs[i+1]
			continue
		}
		at[pairs[i]] = len(kept)
		kept = append(kept, pairs[i], pairs[i+1])
	}
	return kept
}
