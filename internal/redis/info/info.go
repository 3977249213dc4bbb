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

// Pairs returns the parts of a value such as "ip=10.0.0.2,port=6379".
func (f Fields) Pairs(name string) Fields {
	pairs := Fields{}
	for part := range strings.SplitSeq(f[name], ",") {
		key, value, _ := strings.Cut(part, "=")
		pairs[key] = value
	}
	return pairs
}

// Replicas returns those that a master counts: slave0, slave1, ...
func (f Fields) Replicas() (all []Fields) {
	for name := range f {
		number, ok := strings.CutPrefix(name, "slave")
		if _, err := strconv.Atoi(number); ok && err == nil {
			all = append(all, f.Pairs(name))
		}
	}
	return all
}
