package script

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Reply reads the answer of a script, one value after the other, and keeps the first error:
// a value that is not of the expected type. An answer that is not a list is a list of one.
type Reply struct {
	// Asked is when the answered try began: the answer is not older.
	Asked time.Time

	// Clock is the server's clock in microseconds, after the reply's data was read; 0 for a script.
	Clock int64

	script string
	name   func(error) error // gives the error of a command of a pipeline its name; else nil
	values []rueidis.RedisMessage
	at     int
	err    error
	none   bool
}

func newReply(script string, asked time.Time, m rueidis.RedisMessage) *Reply {
	r := &Reply{Asked: asked, script: script, values: []rueidis.RedisMessage{m}, none: m.IsNil()}
	if m.IsArray() {
		r.values, r.err = m.ToArray()
	}
	return r
}

// More reports whether there is another value to read.
func (r *Reply) More() bool { return r.err == nil && r.at < len(r.values) }

// None reports whether the answer is nil: the requested data does not exist.
func (r *Reply) None() bool { return r.none }

// Len returns how many values have not been read.
func (r *Reply) Len() int { return len(r.values) - r.at }

// Err returns the first error.
func (r *Reply) Err() error { return r.err }

// Int reads an integer, or a text of digits.
func (r *Reply) Int() int64 {
	m, ok := r.next()
	if !ok {
		return 0
	}
	n, err := m.AsInt64()
	if err != nil {
		r.wrong(m, "an integer")
	}
	return n
}

// Bool reads 1 or 0.
func (r *Reply) Bool() bool { return r.Int() == 1 }

// Text reads a text; nil is an empty one.
func (r *Reply) Text() string {
	text, _ := r.Maybe()
	return text
}

// Maybe reads a text, and reports whether it is there: not nil.
func (r *Reply) Maybe() (string, bool) {
	m, ok := r.next()
	if !ok || m.IsNil() {
		return "", false
	}
	if m.IsInt64() {
		n, err := m.AsInt64()
		return strconv.FormatInt(n, 10), err == nil
	}
	text, err := m.ToString()
	if err != nil {
		r.wrong(m, "a text")
	}
	return text, err == nil
}

// Number reads a text that is a number.
func (r *Reply) Number() float64 {
	m, ok := r.next()
	if !ok {
		return 0
	}
	number, err := m.AsFloat64()
	if err != nil {
		r.wrong(m, "a number")
	}
	return number
}

// Millis reads a duration in milliseconds.
func (r *Reply) Millis() time.Duration { return time.Duration(r.Int()) * time.Millisecond }

// Micros reads a duration in microseconds.
func (r *Reply) Micros() time.Duration { return time.Duration(r.Int()) * time.Microsecond }

// MilliTime reads a time in Unix milliseconds; 0 and an empty text are no time.
func (r *Reply) MilliTime() time.Time {
	m, ok := r.next()
	if !ok || m.IsNil() {
		return time.Time{}
	}
	if text, err := m.ToString(); err == nil && text == "" {
		return time.Time{}
	}
	ms, err := m.AsInt64()
	if err != nil {
		r.wrong(m, "a time in milliseconds")
	}
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// MicroTime reads a time in Unix microseconds.
func (r *Reply) MicroTime() time.Time { return time.UnixMicro(r.Int()) }

// List reads a list, whose errors count as those of the whole. It must be read before
// the values behind it.
func (r *Reply) List() *Reply {
	inner := &Reply{Asked: r.Asked, script: r.script, err: r.err}
	m, ok := r.next()
	if !ok {
		inner.err = r.err
		return inner
	}
	values, err := m.ToArray()
	if err != nil {
		r.wrong(m, "a list")
		inner.err = r.err
	}
	inner.values = values
	return inner
}

// Texts reads a list of texts.
func (r *Reply) Texts() []string {
	inner := r.List()
	texts := make([]string, 0, len(inner.values))
	for inner.More() {
		texts = append(texts, inner.Text())
	}
	r.Join(inner)
	return texts
}

// Fields reads fields, each with its value: a map of any protocol.
func (r *Reply) Fields() map[string]string {
	m, ok := r.next()
	if !ok {
		return nil
	}
	fields, err := m.AsStrMap()
	if err != nil {
		r.wrong(m, "fields and values")
	}
	return fields
}

// Scores reads members of a sorted set and their scores, of any protocol.
func (r *Reply) Scores() []rueidis.ZScore {
	m, ok := r.next()
	if !ok {
		return nil
	}
	scores, err := m.AsZScores()
	if err != nil {
		r.wrong(m, "members and scores")
	}
	return scores
}

// Join takes over the error of a list that was read.
func (r *Reply) Join(inner *Reply) {
	if r.err == nil {
		r.err = inner.err
	}
}

// next returns the next value.
func (r *Reply) next() (m rueidis.RedisMessage, ok bool) {
	if r.err != nil {
		return m, false
	}
	if r.at == len(r.values) {
		r.err = fmt.Errorf("the script %s answered %d values, and more are needed", r.script, len(r.values))
		return m, false
	}
	m = r.values[r.at]
	r.at++
	if err := m.Error(); r.name != nil && err != nil && !m.IsNil() {
		r.err = r.name(err)
	}
	return m, r.err == nil
}

// wrong notes that a value has another shape.
func (r *Reply) wrong(m rueidis.RedisMessage, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("the script %s answered %s as value %d, not %s", r.script, shape(m), r.at, want)
	}
}

// shape describes a value.
func shape(m rueidis.RedisMessage) string {
	const most = 40
	switch {
	case m.IsNil():
		return "nil"
	case m.IsArray():
		values, _ := m.ToArray()
		return fmt.Sprintf("a list of %d", len(values))
	case m.IsInt64():
		n, _ := m.AsInt64()
		return fmt.Sprintf("the integer %d", n)
	}
	text, err := m.ToString()
	if err != nil {
		return fmt.Sprintf("an error (%v)", err)
	}
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("the text %q", text)
}
