package ick

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// reader takes the values of a script's reply in their order and keeps the
// first error.
type reader struct {
	values []rueidis.RedisMessage
	err    error
}

func (r *reader) next() (m rueidis.RedisMessage, ok bool) {
	if len(r.values) == 0 && r.err == nil {
		r.err = fmt.Errorf("a script's reply is too short")
	}
	if r.err != nil {
		return m, false
	}
	m, r.values = r.values[0], r.values[1:]
	return m, true
}

func (r *reader) text() (text string) {
	if m, ok := r.next(); ok {
		text, r.err = m.ToString()
	}
	return text
}

func (r *reader) integer() (n int64) {
	if m, ok := r.next(); ok {
		n, r.err = m.ToInt64()
	}
	return n
}

// time reads a clock in microseconds.
func (r *reader) time() time.Time {
	us, err := strconv.ParseInt(r.text(), 10, 64)
	if r.err == nil {
		r.err = err
	}
	return time.UnixMicro(us)
}

func (r *reader) micros() time.Duration { return time.Duration(r.integer()) * time.Microsecond }

// score reads a score; ok is false for the empty text that stands for none.
func (r *reader) score() (score float64, ok bool) {
	text := r.text()
	if r.err != nil || text == "" {
		return 0, false
	}
	score, r.err = strconv.ParseFloat(text, 64)
	return score, r.err == nil
}

// list reads an array.
func (r *reader) list() (list []rueidis.RedisMessage) {
	if m, ok := r.next(); ok {
		list, r.err = m.ToArray()
	}
	return list
}

// entries reads an array of members and scores.
func (r *reader) entries() []Entry {
	inner := reader{values: r.list(), err: r.err}
	entries := make([]Entry, 0, len(inner.values)/2)
	for len(inner.values) > 0 && inner.err == nil {
		member := inner.text()
		score, _ := inner.score()
		entries = append(entries, Entry{Member: member, Score: score})
	}
	r.err = inner.err
	return entries
}
