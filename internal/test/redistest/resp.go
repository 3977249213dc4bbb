package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// request is one command as it went over the wire. The buffers are reused by
// the next read.
type request struct {
	raw  []byte
	args [][2]int // each argument's place in raw
}

// arg returns the argument i, or nil if there are fewer.
func (r *request) arg(i int) []byte {
	if i >= len(r.args) {
		return nil
	}
	return r.raw[r.args[i][0]:r.args[i][1]]
}

// words returns all arguments as strings of their own.
func (r *request) words() []string {
	words := make([]string, len(r.args))
	for i := range r.args {
		words[i] = string(r.arg(i))
	}
	return words
}

// read reads the next command: an array of bulk strings, or an inline line.
func (r *request) read(in *bufio.Reader) error {
	r.raw, r.args = r.raw[:0], r.args[:0]
	line, err := r.line(in)
	if err != nil {
		return err
	}
	if len(line) == 0 || line[0] != '*' {
		for word := range bytes.FieldsSeq(line) {
			start := bytes.Index(r.raw[r.end():], word) + r.end()
			r.args = append(r.args, [2]int{start, start + len(word)})
		}
		return nil
	}
	count, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return fmt.Errorf("redistest: request starts with %q", line)
	}
	for range count {
		line, err := r.line(in)
		if err != nil {
			return err
		}
		if len(line) == 0 || line[0] != '$' {
			return fmt.Errorf("redistest: request holds %q where a bulk string was expected", line)
		}
		size, err := strconv.Atoi(string(line[1:]))
		if err != nil || size < 0 {
			return fmt.Errorf("redistest: request holds a bulk string of size %q", line[1:])
		}
		start := len(r.raw)
		if r.raw, err = appendN(r.raw, in, size+2); err != nil {
			return err
		}
		r.args = append(r.args, [2]int{start, start + size})
	}
	return nil
}

// end returns where the last argument ends.
func (r *request) end() int {
	if len(r.args) == 0 {
		return 0
	}
	return r.args[len(r.args)-1][1]
}

// line appends one line to raw and returns it without its end.
func (r *request) line(in *bufio.Reader) ([]byte, error) {
	start := len(r.raw)
	var err error
	if r.raw, err = appendLine(r.raw, in); err != nil {
		return nil, err
	}
	return bytes.TrimRight(r.raw[start:], "\r\n"), nil
}

// appendReply appends the next complete frame, with the attributes before it,
// to dst.
func appendReply(dst []byte, in *bufio.Reader) ([]byte, error) {
	start := len(dst)
	dst, err := appendLine(dst, in)
	if err != nil {
		return dst, err
	}
	header := bytes.TrimRight(dst[start:], "\r\n")
	if len(header) == 0 {
		return dst, errors.New("redistest: empty line in a reply")
	}
	kind := header[0]
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return dst, nil
	}
	size, err := strconv.Atoi(string(header[1:]))
	if err != nil {
		return dst, fmt.Errorf("redistest: reply holds %q", header)
	}
	if size < 0 { // a RESP2 null
		return dst, nil
	}
	frames := size
	switch kind {
	case '$', '=', '!':
		return appendN(dst, in, size+2)
	case '*', '~', '>':
	case '%':
		frames = 2 * size
	case '|':
		frames = 2*size + 1 // the attributes, then the value they belong to
	default:
		return dst, fmt.Errorf("redistest: reply of unknown type %q", header)
	}
	for range frames {
		if dst, err = appendReply(dst, in); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func appendLine(dst []byte, in *bufio.Reader) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		dst = append(dst, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return dst, err
		}
	}
}

func appendN(dst []byte, in *bufio.Reader, n int) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	_, err := io.ReadFull(in, dst[start:])
	return dst, err
}

// firstText returns the first element of an array or push frame if that is a
// bulk or simple string, else nil.
func firstText(frame []byte) []byte {
	_, rest, _ := bytes.Cut(frame, []byte("\r\n"))
	head, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	switch {
	case len(head) > 0 && head[0] == '+':
		return head[1:]
	case len(head) > 0 && head[0] == '$':
		text, _, _ := bytes.Cut(rest, []byte("\r\n"))
		return text
	}
	return nil
}
