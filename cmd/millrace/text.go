package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace"
)

// text is bytes that a name or a member is made of: an argument, and a value in
// a document.
//
//	the bytes                            in JSON
//	UTF-8                                "..."
//	anything else                        {"base64":"..."}
//	UTF-8 that has this very form        {"base64":"..."}
//
// The third line lets every value printed be used as an argument.
type text string

// base64Form returns the string of a JSON object {"base64":"..."} that has no
// other member.
func base64Form(s string) (encoded string, ok bool) {
	if !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") || !utf8.ValidString(s) {
		return "", false
	}
	var object map[string]*string
	if json.Unmarshal([]byte(s), &object) != nil || len(object) != 1 || object["base64"] == nil {
		return "", false
	}
	return *object["base64"], true
}

// Decode reads an argument; kong calls it.
func (t *text) Decode(ctx *kong.DecodeContext) error {
	arg, _ := ctx.Scan.Pop().Value.(string)
	var err error
	*t, err = argument(arg)
	return err
}

// argument returns the bytes that an argument, or a part of one, stands for.
func argument(arg string) (text, error) {
	encoded, ok := base64Form(arg)
	if !ok {
		return text(arg), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", errNotBase64.Saying("%q is not base64", encoded)
	}
	return text(decoded), nil
}

var errNotBase64 = &millrace.Error{
	Code: "bad_argument",
	Hint: `An argument of the form {"base64":"..."} stands for bytes: encode them by RFC 4648 with padding.`,
}

// UnmarshalJSON reads a value of a document: a string as it is, and bytes from
// their base64 form.
func (t *text) UnmarshalJSON(b []byte) error {
	if _, ok := base64Form(string(b)); !ok {
		return json.Unmarshal(b, (*string)(t))
	}
	var err error
	*t, err = argument(string(b))
	return err
}

// MarshalJSON writes a value of a document.
func (t text) MarshalJSON() ([]byte, error) {
	var doc any = string(t)
	if _, ok := base64Form(string(t)); ok || !utf8.ValidString(string(t)) {
		doc = map[string][]byte{"base64": []byte(t)}
	}
	var b bytes.Buffer
	err := encode(&b, doc)
	return b.Bytes(), err
}

// String returns the text as a table shows it. What a terminal might not show,
// or might obey, is in its JSON form.
func (t text) String() string {
	_, form := base64Form(string(t))
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case t == "":
		return `""`
	case form, !utf8.ValidString(string(t)), strings.ContainsFunc(string(t), hidden):
		return `{"base64":"` + base64.StdEncoding.EncodeToString([]byte(t)) + `"}`
	}
	return string(t)
}

func texts(list []string) []text {
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func plain(list []text) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

// score is a score in a document: a number with every digit that the server
// holds, or "inf" or "-inf", for which JSON has no number.
type score float64

// MarshalJSON writes a value of a document.
func (s score) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(s), 1):
		return []byte(`"inf"`), nil
	case math.IsInf(float64(s), -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(float64(s))
}

// String returns the score as a table shows it: with the same digits.
func (s score) String() string {
	b, err := s.MarshalJSON()
	if err != nil {
		return strconv.FormatFloat(float64(s), 'g', -1, 64)
	}
	return strings.Trim(string(b), `"`)
}

// age returns how long before now a score lies, if the score is a time at all:
// scores that are some other order would be centuries away.
func (s score) age(now time.Time) string {
	const century = 100 * 365 * 24 * time.Hour
	seconds := float64(now.UnixMicro())/1e6 - float64(s)
	switch {
	case math.Abs(seconds) > century.Seconds():
		return "-"
	case seconds < 0:
		return "in " + duration(time.Duration(-seconds*float64(time.Second)))
	}
	return duration(time.Duration(seconds * float64(time.Second)))
}

// duration writes a duration for people: "120ms", "3m12s", "2d5h".
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < day:
		return d.Round(time.Second).String()
	}
	hours := int64(d.Round(time.Hour) / time.Hour)
	return strconv.FormatInt(hours/24, 10) + "d" + strconv.FormatInt(hours%24, 10) + "h"
}

// count writes a number of things: "1 mark", "2 marks".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// grouped writes a number with a comma at each thousand.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
