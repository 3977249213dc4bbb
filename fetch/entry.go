package fetch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// An entry is what is stored for a key. In Redis it is a line of text and the
// payload:
//
//	2 value 300000 60000 120 0\n{"title":"..."}
//	2 none 5000 0 80 0\n
//	2 failed 1000 0 0 0\nthe database is away
//
// The first number is the version. The others are milliseconds: for how long it is fresh,
// and then for how long it is old; what it cost to compute; and, once a load has failed,
// how much of its time must be left at most before the next one.
type entry struct {
	kind       kind
	ttl, stale time.Duration
	cost       time.Duration
	retry      time.Duration
	payload    []byte

	left time.Duration // until it is gone, by the server's clock; 0 when there is no entry
}

// kind is what an entry says.
type kind string

const (
	valueKind  kind = "value"
	noneKind   kind = "none"   // there is no value for the key
	failedKind kind = "failed" // a load failed, when there was no old value; the payload says how
)

// found reports whether there is an entry.
func (e entry) found() bool { return e.left > 0 }

// fresh reports whether it is not old yet.
func (e entry) fresh() bool { return e.left > e.stale }

// rests reports whether a load failed so short a while ago that nobody tries again.
func (e entry) paused() bool { return e.retry > 0 && e.left > e.retry }

// lifetime is for how long it is stored.
func (e entry) lifetime() time.Duration { return e.ttl + e.stale }

// answer is that of a call which was given the entry.
func (e entry) answer(o Outcome) answer {
	a := answer{outcome: o, payload: e.payload, age: max(0, e.lifetime()-e.left)}
	if e.kind == noneKind {
		a.err = millrace.ErrNotFound
	}
	return a
}

// seal returns what is stored.
func (e entry) seal() []byte {
	head := fmt.Appendf(nil, "2 %s %d %d %d %d\n", e.kind, e.ttl.Milliseconds(), e.stale.Milliseconds(), e.cost.Milliseconds(), e.retry.Milliseconds())
	return append(head, e.payload...)
}

// unseal reads what is stored and lives that much longer.
func unseal(stored []byte, left time.Duration) (entry, error) {
	head, payload, _ := bytes.Cut(stored, []byte("\n"))
	words := strings.Split(string(head), " ")
	if len(words) != 6 || words[0] != "2" {
		return entry{}, fmt.Errorf("what is stored is no entry of version 2: %.40q", head)
	}
	e := entry{kind: kind(words[1]), payload: payload, left: left}
	if e.kind != valueKind && e.kind != noneKind && e.kind != failedKind {
		return entry{}, fmt.Errorf("what is stored is neither a value nor none: %.40q", head)
	}
	for i, d := range []*time.Duration{&e.ttl, &e.stale, &e.cost, &e.retry} {
		ms, err := strconv.ParseInt(words[2+i], 10, 64)
		if err != nil {
			return entry{}, fmt.Errorf("a time of an entry is no number: %w", err)
		}
		*d = time.Duration(ms) * time.Millisecond
	}
	return e, nil
}

// encode returns the payload that holds v.
func encode[T any](v T) ([]byte, error) {
	switch v := any(v).(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, ErrEncoding.Errorf("a %T cannot be written as JSON", v).Wrap(err)
	}
	return payload, nil
}

// decode returns the value that a payload holds, in memory of its own.
func decode[T any](payload []byte) (T, error) {
	var v T
	switch into := any(&v).(type) {
	case *[]byte:
		*into = append([]byte{}, payload...)
	case *string:
		*into = string(payload)
	default:
		if err := json.Unmarshal(payload, &v); err != nil {
			var none T
			return none, ErrEncoding.Errorf("what was computed or stored is no %T", v).Wrap(err)
		}
	}
	return v, nil
}
