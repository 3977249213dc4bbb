package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/readable"
)

// preview is the readable beginning of a body.
type preview struct {
	Kind string // JSON, text or bytes
	Text string
	Size string // of the whole body

	// Excerpt is the beginning in one line.
	Excerpt string
	Cut     bool // there is more
}

const (
	// maxText is how many bytes of a body are shown as text.
	maxText = 4 << 10

	// maxHex is how many bytes are shown of a body that is not text.
	maxHex = 256

	// maxJSON is the largest body that is indented as JSON.
	maxJSON = 64 << 10

	// maxNested is how deep it may be nested.
	maxNested = 16
)

func newPreview(body []byte) preview {
	p := preview{Size: readable.Bytes(int64(len(body))), Excerpt: excerpt(body)}
	if len(body) <= maxJSON && utf8.Valid(body) && json.Valid(body) && shallow(body) {
		var indented bytes.Buffer
		if json.Indent(&indented, body, "", "  ") == nil {
			p.Kind, body = "JSON", indented.Bytes()
		}
	}
	start := body[:min(len(body), maxText)]
	p.Cut = len(start) < len(body)
	for p.Cut && len(start) > 0 && !utf8.Valid(start) && len(body[:maxText])-len(start) < utf8.UTFMax {
		start = start[:len(start)-1] // it may end within a character
	}
	if isText(start) {
		if p.Kind == "" {
			p.Kind = "text"
		}
		p.Text = string(start)
		return p
	}
	p.Kind, p.Cut = "bytes", len(body) > maxHex
	p.Text = hex.Dump(body[:min(len(body), maxHex)])
	return p
}

// shallow reports whether a JSON document is nested no deeper than maxNested: indented, the
// size of deep nesting would be the square.
func shallow(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // which may be too large for any other
	for depth := 0; depth <= maxNested; {
		token, err := d.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return false
}

// maxExcerpt is how many bytes of a body an excerpt has.
const maxExcerpt = 160

// excerpt returns the beginning of a body in one line. JSON loses its white space.
func excerpt(body []byte) string {
	if len(body) <= maxJSON && json.Valid(body) {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			body = compact.Bytes()
		}
	}
	start := cut(string(body), maxExcerpt)
	if isText([]byte(start)) {
		return strings.Join(strings.Fields(start), " ")
	}
	return hex.EncodeToString(body[:min(len(body), maxExcerpt/4)])
}

// isText reports whether bytes are text, also of several lines.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}
