package dashboard

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a foreign text as a page shows it.
type piece struct {
	Text string
	Odd  bool // an escape for bytes that are invisible or invalid
}

// longest is how many characters of a name a page shows. Longer names lose their middle.
const longest = 96

// pieces splits a text into readable parts and escapes, which stand for control characters,
// invisible ones, those that change the direction of text, and invalid UTF-8.
func pieces(s string) []piece { return split(s, "") }

// lines returns the pieces of a text with several lines.
func lines(s string) []piece { return split(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t") }

// split splits a text. The given characters count as readable.
func split(s, readable string) []piece {
	var all []piece
	add := func(text string, odd bool) {
		if n := len(all); n > 0 && all[n-1].Odd == odd {
			all[n-1].Text += text
			return
		}
		all = append(all, piece{text, odd})
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			add(fmt.Sprintf(`\x%02x`, s[0]), true)
		case unicode.IsPrint(r), strings.ContainsRune(readable, r):
			add(s[:size], false)
		case r < utf8.RuneSelf:
			add(fmt.Sprintf(`\x%02x`, r), true)
		default:
			add(fmt.Sprintf(`\u%04x`, r), true)
		}
		s = s[size:]
	}
	return all
}

// shown returns the pieces of a name, without its middle if it is long.
func shown(name string) []piece {
	if utf8.RuneCountInString(name) <= longest {
		return pieces(name)
	}
	runes := []rune(strings.ToValidUTF8(name, string(utf8.RuneError)))
	head, tail := string(runes[:longest*2/3]), string(runes[len(runes)-longest/4:])
	return append(append(pieces(head), piece{" … ", true}), pieces(tail)...)
}

// plain escapes a whole text as [pieces] does, for attributes and logs.
func plain(s string) string {
	var b strings.Builder
	for _, p := range pieces(s) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// token encodes any bytes for paths and forms. Most names stay as they are. Names with a
// slash or other special characters, names of dots, which browsers resolve, and names that
// are not printable become a tilde and base64.
func token(name string) string {
	if name == "" || name[0] == '~' || strings.Trim(name, ".") == "" || strings.ContainsAny(name, `/\;%`) || plain(name) != name {
		return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return name
}

// untoken decodes a token.
func untoken(text string) (string, bool) {
	encoded, ok := strings.CutPrefix(text, "~")
	if !ok {
		return text, text != ""
	}
	name, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(name), err == nil
}

// segment encodes any bytes as one part of a path.
func segment(name string) string { return url.PathEscape(token(name)) }
