package dashboard

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text that somebody else has chosen, as a page shows it.
type piece struct {
	Text string
	Odd  bool // it stands for bytes that cannot be shown, or that would hide something
}

// longest is how many characters of a name a page shows. Of a longer one it shows
// the beginning and the end.
const longest = 96

// pieces splits a text into what can be read and what cannot: control characters,
// those that change the direction of text or are invisible, and bytes that are not
// UTF-8 are written as escapes.
func pieces(s string) []piece { return split(s, "") }

// lines are the pieces of a text that may have several lines.
func lines(s string) []piece { return split(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t") }

// split splits a text, of which some characters count as readable that others would
// not see.
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

// shown are the pieces of a name, of which the middle is left out if it is long.
func shown(name string) []piece {
	if utf8.RuneCountInString(name) <= longest {
		return pieces(name)
	}
	runes := []rune(strings.ToValidUTF8(name, string(utf8.RuneError)))
	head, tail := string(runes[:longest*2/3]), string(runes[len(runes)-longest/4:])
	return append(append(pieces(head), piece{" … ", true}), pieces(tail)...)
}

// plain writes a whole text as [pieces] does, for attributes and for logs.
func plain(s string) string {
	var b strings.Builder
	for _, p := range pieces(s) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// token writes any bytes so that paths and forms carry them unharmed. Most names are
// just themselves. Those with a slash, which some take for two parts of a path even if
// it is escaped, those of dots, which browsers resolve, and those that cannot be shown
// are a tilde and base64.
func token(name string) string {
	if name == "" || name[0] == '~' || strings.Trim(name, ".") == "" || strings.ContainsAny(name, `/\;%`) || plain(name) != name {
		return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return name
}

// untoken reads what token wrote.
func untoken(text string) (string, bool) {
	encoded, ok := strings.CutPrefix(text, "~")
	if !ok {
		return text, text != ""
	}
	name, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(name), err == nil
}

// segment writes any bytes as one part of a path; untoken reads it, once escapes are
// undone.
func segment(name string) string { return url.PathEscape(token(name)) }
