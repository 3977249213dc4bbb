package overview

import (
	"slices"
	"strings"
)

// OneLine returns the messages of joined errors, each once, on one line.
func OneLine(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
