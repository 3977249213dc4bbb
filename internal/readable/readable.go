// Package readable writes amounts for people, in the same way wherever the command
// and the service show them. Programs read plain numbers instead.
package readable

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Number writes a whole number with commas: "1,204".
func Number[N ~int | ~int64](n N) string { return humanize.Comma(int64(n)) }

// Count writes a number of things: "1 mark", "1,204 marks".
func Count[N ~int | ~int64](n N, thing string) string {
	return Number(n) + " " + english.PluralWord(int(n), thing, "")
}

// Bytes writes a size with two digits: "1.5 MB". As in redis.conf, a kB is 1,024 bytes.
func Bytes(n int64) string { return redisUnits.Replace(humanize.IBytes(uint64(max(0, n)))) }

var redisUnits = strings.NewReplacer("KiB", "kB", "iB", "B", ".0 ", " ")

// Duration writes a duration: "120ms", "3m12s", "2d5h". go-humanize has no form as
// short and exact as this.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < day:
		return d.Round(time.Second).String()
	}
	hours := int64(d.Round(time.Hour) / time.Hour)
	return fmt.Sprintf("%dd%dh", hours/24, hours%24)
}

// Counter is a field of a structure's Counters.
type Counter struct {
	Name string // in JSON
	Doc  string // a sentence
	N    int64
}

// Counters returns the fields of a Counters struct, which are int64 with the tags json and doc.
func Counters(s any) []Counter {
	v := reflect.ValueOf(s)
	all := make([]Counter, v.NumField())
	for i := range all {
		tag := v.Type().Field(i).Tag
		all[i] = Counter{tag.Get("json"), tag.Get("doc"), v.Field(i).Int()}
	}
	return all
}

// Name returns a name for people. One with bytes that a terminal would hide or interpret is
// [Encoded], and so is one that looks as if it were: a command would decode it. The empty one
// is in quotes.
func Name(s string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	_, form := EncodedForm(s)
	switch {
	case s == "":
		return `""`
	case form, !utf8.ValidString(s), strings.ContainsFunc(s, hidden):
		return Encoded(s)
	}
	return s
}

// EncodedForm returns the text in a JSON object {"base64":"..."} without other members.
func EncodedForm(s string) (encoded string, ok bool) {
	if !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") || !utf8.ValidString(s) {
		return "", false
	}
	var object map[string]*string
	if json.Unmarshal([]byte(s), &object) != nil || len(object) != 1 || object["base64"] == nil {
		return "", false
	}
	return *object["base64"], true
}

// Encoded returns bytes in the form that commands take: {"base64":"..."}.
func Encoded(s string) string {
	return `{"base64":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}`
}

// Line returns the messages of joined errors, each once, on one line.
func Line(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// Argument returns a text as an argument for a shell: in quotes if it needs some, and one that looks like a flag encoded.
func Argument(text string) string {
	if strings.HasPrefix(text, "-") {
		text = Encoded(text)
	} else {
		text = Name(text)
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@", r)
	}
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
