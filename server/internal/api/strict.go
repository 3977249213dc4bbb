package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

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
// the values later, and reports each of a million invalid entries.
func (a *API) checkBody(body []byte, schema *huma.Schema) error {
	w := walker{jsontext.NewDecoder(bytes.NewBuffer(body)), a.huma.OpenAPI().Components.Schemas}
	err := w.walk(schema, 0)
	if err == nil {
		if _, err = w.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		}
		return errRequest.Errorf("there is data after the JSON document")
	}
	if wrong, ok := errors.AsType[*placeError](err); ok {
		return invalid("body"+wrong.place, wrong.what)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errRequest.Errorf("the body is empty or not complete")
	case jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)):
		return errUTF8.Errorf("the body is not UTF-8")
	}
	return errRequest.Errorf("the body is not JSON: %s, after %d bytes", err, w.InputOffset())
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
	*jsontext.Decoder

	schemas huma.Registry
}

// walk visits one value. The schema is nil if there is none.
func (w walker) walk(schema *huma.Schema, depth int) error {
	if schema != nil && schema.Extensions[jsontype.Any] != nil {
		return w.SkipValue()
	}
	token, err := w.ReadToken()
	if err != nil {
		return err
	}
	kind := token.Kind()
	if kind == 'n' {
		return &placeError{what: "null is not allowed; leave the field out"}
	}
	if kind != '[' && kind != '{' {
		return nil
	}
	if depth == maxDepth {
		return &placeError{what: fmt.Sprintf("nested deeper than %d", maxDepth)}
	}
	if schema != nil && schema.Ref != "" {
		schema = w.schemas.SchemaFromRef(schema.Ref)
	}
	if kind == '[' {
		err = w.walkList(schema, depth)
	} else {
		err = w.walkObject(schema, depth)
	}
	if err == nil {
		_, err = w.ReadToken() // the end
	}
	return err
}

// more reports whether the list or the object goes on.
func (w walker) more() bool {
	kind := w.PeekKind()
	return kind != ']' && kind != '}'
}

func (w walker) walkList(schema *huma.Schema, depth int) error {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}
	for i := 0; w.more(); i++ {
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
	for w.more() {
		token, err := w.ReadToken()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return &placeError{"." + duplicate(err), "is a duplicate"}
		}
		if err != nil {
			return err
		}
		name := token.String()
		below, known := member(schema, name)
		if !known {
			return &placeError{"." + name, "is unknown"}
		}
		if err := w.walk(below, depth+1); err != nil {
			return within("."+name, err)
		}
	}
	return nil
}

// duplicate returns the name that an object has twice.
func duplicate(err error) string {
	syntax, _ := errors.AsType[*jsontext.SyntacticError](err)
	return syntax.JSONPointer.LastToken()
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
