package jsontype

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/readable"
)

// Text is the bytes of a name, a member or a body.
//
//	the bytes                            in JSON
//	UTF-8                                "..."
//	anything else                        {"base64":"..."}
//	UTF-8 that has this very form        {"base64":"..."}
//
// Because of the third line [ParseText] reads every value that was written.
type Text string

// ParseText returns the bytes of a command line argument: the argument itself, or the
// content of its base64 form. The error has the code bad_argument.
func ParseText(arg string) (Text, error) {
	encoded, ok := readable.EncodedForm(arg)
	if !ok {
		return Text(arg), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", errNotBase64.Errorf("%.40q is not base64", encoded)
	}
	return Text(decoded), nil
}

var errNotBase64 = &millrace.Error{
	Code: "bad_argument",
	Hint: `An argument of the form {"base64":"..."} stands for bytes: encode them by RFC 4648 with padding.`,
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Text) UnmarshalJSON(b []byte) error {
	if _, ok := readable.EncodedForm(string(b)); !ok {
		return json.Unmarshal(b, (*string)(t))
	}
	var err error
	*t, err = ParseText(string(b))
	return err
}

// MarshalJSON writes the value as the contract has it.
func (t Text) MarshalJSON() ([]byte, error) {
	var doc any = string(t)
	if _, ok := readable.EncodedForm(string(t)); ok || !utf8.ValidString(string(t)) {
		doc = map[string][]byte{"base64": []byte(t)}
	}
	var b bytes.Buffer
	err := Encode(&b, doc)
	return b.Bytes(), err
}

// String returns the text for people. Text with bytes that a terminal would hide or
// interpret is in its JSON form.
func (t Text) String() string { return readable.Name(string(t)) }

// Schema describes the value for the OpenAPI value.
func (Text) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Text", &huma.Schema{
		Title:       "Text",
		Description: `Bytes: a string if they are UTF-8, and {"base64":"..."} (RFC 4648, with padding) if they are not, or if they are UTF-8 of that very form.`,
		OneOf: []*huma.Schema{
			{Type: huma.TypeString},
			{Type: huma.TypeObject, Required: []string{"base64"}, AdditionalProperties: false, Properties: map[string]*huma.Schema{"base64": {
				Type: huma.TypeString, Pattern: `^[A-Za-z0-9+/]*={0,2}$`, PatternDescription: "base64 with padding",
				Extensions: map[string]any{"contentEncoding": "base64"}, // as ContentEncoding it could not be empty
			}}},
		},
		Examples: []any{"acme"},
	})
}

// Texts converts strings.
func Texts(list []string) []Text {
	out := make([]Text, len(list))
	for i, s := range list {
		out[i] = Text(s)
	}
	return out
}

// Strings converts texts.
func Strings(list []Text) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

// Encode writes a document as one line. It leaves "&" and "<" readable, since this JSON
// is never part of a web page.
func Encode(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}
