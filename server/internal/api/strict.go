package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
)

// maxDepth is how deep objects and lists may be nested. No document needs half of it.
const maxDepth = 16

var errUTF8 = &millrace.Error{
	Code: "bad_utf8",
	Hint: `Send UTF-8; bytes that are not go as {"base64":"..."}.`,
}

// checkBody refuses everything but one JSON document, and documents that parsers read in
// different ways: with text that is not Unicode, duplicate or unknown names, null. huma checks
// the values later.
//
// No library of the kind that we want does this: encoding/json accepts invalid text and
// duplicate names, its second version is experimental, and huma reports each of a million
// invalid entries.
func (a *API) checkBody(body []byte, schema *huma.Schema) error {
	if !utf8.Valid(body) || loneSurrogate(body) {
		return errUTF8.Errorf("the body is not UTF-8")
	}
	w := walker{json.NewDecoder(bytes.NewReader(body)), a.huma.OpenAPI().Components.Schemas}
	w.UseNumber()
	err := w.walk(schema, 0)
	wrong, ok := errors.AsType[*placeError](err)
	switch {
	case ok:
		return invalid("body"+wrong.place, wrong.what)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errRequest.Errorf("the body is empty or not complete")
	case err != nil:
		return errRequest.Errorf("the body is not JSON: %s, after %d bytes", err, w.InputOffset())
	}
	if _, err := w.Token(); !errors.Is(err, io.EOF) {
		return errRequest.Errorf("there is data after the JSON document")
	}
	return nil
}

// invalid returns the problem of a request that is invalid at one place.
func invalid(place, what string) *problem {
	p := problemOf(errRequest.Errorf("%s: %s", place, what))
	p.Errors = []fieldError{{brief(place), what}}
	return p
}

// placeError is an error at a place of a document.
type placeError struct{ place, what string }

func (e *placeError) Error() string { return e.place + ": " + e.what }

// within prepends a part of the document to the place of an error.
func within(part string, err error) error {
	if wrong, ok := errors.AsType[*placeError](err); ok {
		wrong.place = part + wrong.place
	}
	return err
}

// walker visits all values of a document.
type walker struct {
	*json.Decoder

	schemas huma.Registry
}

// walk visits one value. The schema is nil if there is none.
func (w walker) walk(schema *huma.Schema, depth int) error {
	if schema != nil && schema.Extensions[jsontype.Any] != nil {
		return w.Decode(new(json.RawMessage))
	}
	token, err := w.Token()
	if err != nil {
		return err
	}
	if token == nil {
		return &placeError{what: "null is not allowed; leave the field out"}
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth == maxDepth {
		return &placeError{what: fmt.Sprintf("nested deeper than %d", maxDepth)}
	}
	if schema != nil && schema.Ref != "" {
		schema = w.schemas.SchemaFromRef(schema.Ref)
	}
	if open == '[' {
		err = w.walkList(schema, depth)
	} else {
		err = w.walkObject(schema, depth)
	}
	if err == nil {
		_, err = w.Token() // the end
	}
	return err
}

func (w walker) walkList(schema *huma.Schema, depth int) error {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}
	for i := 0; w.More(); i++ {
		if schema != nil && schema.MaxItems != nil && i == *schema.MaxItems { // before huma reports each entry
			return &placeError{what: fmt.Sprintf("has more than %d entries", i)}
		}
		if err := w.walk(items, depth+1); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

func (w walker) walkObject(schema *huma.Schema, depth int) error {
	seen := make(map[string]bool)
	for w.More() {
		token, err := w.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		below, known := member(schema, name)
		switch {
		case seen[name]:
			return &placeError{"." + name, "is a duplicate"}
		case !known:
			return &placeError{"." + name, "is unknown"}
		}
		seen[name] = true
		if err := w.walk(below, depth+1); err != nil {
			return within("."+name, err)
		}
	}
	return nil
}

// member returns the schema of a member of an object, and whether the name is known.
// Names are case sensitive.
func member(object *huma.Schema, name string) (schema *huma.Schema, known bool) {
	switch {
	case object == nil:
		return nil, true
	case len(object.Properties) > 0:
		schema, known = object.Properties[name]
		return schema, known
	}
	schema, _ = object.AdditionalProperties.(*huma.Schema)
	return schema, true
}

// loneSurrogate reports whether JSON text has an escaped half of a surrogate pair, which
// is no character.
func loneSurrogate(body []byte) bool {
	for {
		at := bytes.IndexByte(body, '\\')
		if at < 0 || at+1 == len(body) {
			return false
		}
		half := surrogate(body[at:])
		switch {
		case half == 0:
			body = body[at+2:] // also past the second of two backslashes
		case half == 'h' && surrogate(body[at+6:]) == 'l':
			body = body[at+12:]
		default:
			return true
		}
	}
}

// surrogate returns h or l if text begins with the escape of a high or a low half, else 0.
func surrogate(text []byte) byte {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return 0
	}
	switch c := text[3] | 0x20; {
	case c == '8', c == '9', c == 'a', c == 'b':
		return 'h'
	case c >= 'c' && c <= 'f':
		return 'l'
	}
	return 0
}
