package plan

import (
	"regexp"
	"strings"

	"github.com/millrace/millrace"
)

// maxLine is the longest line of a file in bytes. A partition of ten members with long names
// needs a third of that.
const maxLine = 4096

// comment begins with # at the start of a line, or behind white space.
var comment = regexp.MustCompile(`(^|\s)#.*`)

// Lines calls do with each line of a file that an operator writes: machines, partitions. It
// strips comments and surrounding white space, and leaves out empty lines. It stops at
// the first error, and returns it as millrace.ErrBadArgument that names the file and the line.
func Lines(file, text string, do func(number int, line string) error) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		err := error(nil)
		if len(line) > maxLine {
			err = refuse("Is this the right file? It has one machine or one partition a line.", "the line has %d bytes, more than %d", len(line), maxLine)
		} else if line = strings.TrimSpace(comment.ReplaceAllString(line, "")); line != "" {
			err = do(number, line)
		}
		if err != nil {
			return refuse(millrace.Hint(err), "%s:%d: %s", file, number, err)
		}
	}
	return nil
}
