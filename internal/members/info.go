package members

import (
	"strconv"
	"strings"
)

// Fields returns what INFO said, by name.
func Fields(info string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// Field returns one field of what INFO said, empty if it is not there.
func Field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Number returns one field as a number, 0 if it is none.
func Number(info, name string) int64 {
	n, _ := strconv.ParseInt(Field(info, name), 10, 64)
	return n
}
