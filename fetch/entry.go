package fetch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An entry is what is stored for a key. In Redis it is a line of text and the
// payload:
//
//	1 value 300000 60000\n{"title":"..."}
//	1 none 5000 0\n
//
// The first number is the version. The others are for how many milliseconds it is
// fresh, and then for how many it is old.
type entry struct {
	none       bool // there is no value for the key
	ttl, stale time.Duration
	payload    []byte

	left time.Duration // until it is gone, by the server's clock; 0 when there is no entry
}

// found reports whether there is an entry.
func (e entry) found() bool { return e.left > 0 }

// fresh reports whether it is not old yet.
func (e entry) fresh() bool { return e.left > e.stale }

// lifetime is for how long it is stored.
func (e entry) lifetime() time.Duration { return e.ttl + e.stale }

// answer is that of a call which was given the entry.
func (e entry) answer(o Outcome) answer {
	a := answer{outcome: o, payload: e.payload, age: max(0, e.lifetime()-e.left)}
	if e.none {
		a.err = ErrNone
	}
	return a
}

// seal returns what is stored.
func (e entry) seal() []byte {
	what := "value"
	if e.none {
		what = "none"
	}
	head := fmt.Appendf(nil, "1 %s %d %d\n", what, e.ttl.Milliseconds(), e.stale.Milliseconds())
	return append(head, e.payload...)
}

// unseal reads what is stored and lives that much longer.
func unseal(stored []byte, left time.Duration) (entry, error) {
	head, payload, _ := bytes.Cut(stored, []byte("\n"))
	words := strings.Split(string(head), " ")
	if len(words) != 4 || words[0] != "1" || words[1] != "value" && words[1] != "none" {
		return entry{}, fmt.Errorf("what is stored is no entry of version 1: %.40q", head)
	}
	ttl, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return entry{}, fmt.Errorf("an entry's TTL is no number: %w", err)
	}
	stale, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		return entry{}, fmt.Errorf("an entry's stale time is no number: %w", err)
	}
	return entry{
		none: words[1] == "none", payload: payload, left: left,
		ttl: time.Duration(ttl) * time.Millisecond, stale: time.Duration(stale) * time.Millisecond,
	}, nil
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
		return nil, ErrEncoding.Saying("a %T cannot be written as JSON", v).With(err)
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
			return none, ErrEncoding.Saying("what was computed or stored is no %T", v).With(err)
		}
	}
	return v, nil
}
