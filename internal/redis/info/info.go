// Package info reads the reply of INFO.
package info

import (
	"strconv"
	"strings"
)

// Fields are the fields of an INFO reply by name.
type Fields map[string]string

// Parse reads the reply of INFO, or of one section.
func Parse(text string) Fields {
	fields := Fields{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Int returns a whole number, 0 if there is none.
func (f Fields) Int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}

// Float returns a number, 0 if there is none.
func (f Fields) Float(name string) float64 {
	n, _ := strconv.ParseFloat(f[name], 64)
	return n
}
