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

// An entry is the stored state of a key. In Redis it is a line of text and the
// payload:
//
//	2 value 300000 60000 120 0\n{"title":"..."}
//	2 none 5000 0 80 0\n
//	2 failed 1000 0 0 0\nthe database is down
//
// The first number is the version. The others are milliseconds: how long the value is fresh, how
// long it is old after that, the duration of its load, and after a failed load the remaining time
// at which the next load may begin.
type entry struct {
	kind       kind
	ttl, stale time.Duration
	cost       time.Duration
	retry      time.Duration
	payload    []byte

	left time.Duration // until it expires, by the server's clock; 0 for no entry
}

type kind string

const (
	valueKind  kind = "value"
	noneKind   kind = "none"   // there is no value for the key
	failedKind kind = "failed" // a load failed without an old value; the payload is its error
)

func (e entry) found() bool             { return e.left > 0 }
func (e entry) fresh() bool             { return e.left > e.stale }
func (e entry) paused() bool            { return e.retry > 0 && e.left > e.retry } // after a failed load
func (e entry) lifetime() time.Duration { return e.ttl + e.stale }

// answer returns the entry as the answer of a call.
func (e entry) answer(o Outcome) answer {
	a := answer{outcome: o, payload: e.payload, age: max(0, e.lifetime()-e.left)}
	if e.kind == noneKind {
		a.err = millrace.ErrNotFound
	}
	return a
}

func (e entry) seal() []byte {
	head := fmt.Appendf(nil, "2 %s %d %d %d %d\n", e.kind, e.ttl.Milliseconds(), e.stale.Milliseconds(), e.cost.Milliseconds(), e.retry.Milliseconds())
	return append(head, e.payload...)
}

// unseal parses a stored entry.
func unseal(stored []byte, left time.Duration) (entry, error) {
	head, payload, _ := bytes.Cut(stored, []byte("\n"))
	words := strings.Split(string(head), " ")
	if len(words) != 6 || words[0] != "2" {
		return entry{}, fmt.Errorf("no entry of version 2: %.40q", head)
	}
	e := entry{kind: kind(words[1]), payload: payload, left: left}
	if e.kind != valueKind && e.kind != noneKind && e.kind != failedKind {
		return entry{}, fmt.Errorf("an entry of an unknown kind: %.40q", head)
	}
	for i, d := range []*time.Duration{&e.ttl, &e.stale, &e.cost, &e.retry} {
		ms, err := strconv.ParseInt(words[2+i], 10, 64)
		if err != nil {
			return entry{}, fmt.Errorf("invalid duration in an entry: %w", err)
		}
		*d = time.Duration(ms) * time.Millisecond
	}
	return e, nil
}

// encode returns the payload of a value.
func encode[T any](v T) ([]byte, error) {
	switch v := any(v).(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, ErrEncoding.Errorf("a %T cannot be encoded as JSON", v).Wrap(err)
	}
	return payload, nil
}

// decode returns the value of a payload, in memory of its own.
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
			return none, ErrEncoding.Errorf("the value is no %T", v).Wrap(err)
		}
	}
	return v, nil
}
