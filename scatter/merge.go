package scatter

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// kind is the expected type of a key, by its name in read.lua.
type kind string

const (
	kindNumber kind = "number"
	kindList   kind = "list"
	kindSet    kind = "set"
	kindScores kind = "scores"
)

// Entry is an entry of a list.
type Entry struct {
	At     time.Time // of the write, by the server's clock, to the millisecond
	Body   []byte
	Server string // the name of the server that has the entry
}

// Merge combines the scores of a member: of several writes, and of several servers.
type Merge int

// The ways to combine scores.
const (
	Sum Merge = iota
	Max
	Min
)

func errMerge(m Merge) error { return millrace.ErrBadArgument.Errorf("invalid Merge: %d", m) }

// Scored is a member of a sorted set.
type Scored struct {
	Member string
	Score  float64
}

// check refuses values of another type, and more members than a gather may hold.
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
		return errTooMany.Errorf("the servers have %d members of %q, and a gather may hold %d", members, a.key, most)
	}
	return nil
}

func (k kind) word() string {
	if k == kindScores {
		return "sorted set"
	}
	return string(k)
}

// sumInts adds counters. Only the final sum must fit.
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

func union(parts []part) ([]string, error) {
	seen := map[string]struct{}{}
	for _, p := range parts {
		for _, member := range p.texts {
			seen[member] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// mergeScores returns the members with the highest scores, up to a limit above 0.
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
		all = slices.Clone(all[:limit]) // frees the others
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

// mergeEntries returns the newest entries, up to the limit. The first entry of each list is the
// newest. It parses no more entries than it needs.
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

type entries struct {
	part
	first *Entry // nil at the end
}

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

// magic are the first bytes of gzip.
const magic = "\x1f\x8b"

// pack returns the stored form of a body: compressed if compress is set and that makes it
// shorter. A body that looks compressed is always compressed, so that unpack restores it.
func pack(body []byte, compress bool) string {
	looks := bytes.HasPrefix(body, []byte(magic))
	if !compress && !looks {
		return string(body)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(body) //nolint:errcheck // a Buffer takes everything
	w.Close()     //nolint:errcheck // the same
	if looks || out.Len() < len(body) {
		return out.String()
	}
	return string(body)
}

func unpack(packed string) ([]byte, error) {
	if !strings.HasPrefix(packed, magic) {
		return []byte(packed), nil
	}
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the body is longer than %d bytes", maxBody)
	}
	return body, err
}

// parseEntry parses an entry of a list: the server's clock in Unix milliseconds, a space, and
// the body, which may be compressed.
func parseEntry(entry string) (time.Time, []byte, error) {
	clock, packed, found := strings.Cut(entry, " ")
	at, err := strconv.ParseInt(clock, 10, 64)
	if !found || err != nil {
		return time.Time{}, nil, fmt.Errorf("%.40q is no entry: it does not begin with milliseconds and a space", entry)
	}
	body, err := unpack(packed)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("the entry of %s: %w", time.UnixMilli(at).UTC().Format(time.RFC3339Nano), err)
	}
	return time.UnixMilli(at), body, nil
}
