package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// referencePage describes the HTTP API, from the API's own description.
type referencePage struct {
	heading

	Base     string // of the examples: the address as the browser knows it
	About    []paragraph
	Groups   []apiGroup
	Problems []apiProblem
}

// paragraph is a text with its topic, a word or two, in front.
type paragraph struct{ Lead, Text string }

type apiGroup struct {
	Name, About string
	Operations  []apiOperation
}

type apiOperation struct {
	ID, Method, Path, Summary, About string

	Example apiExample
	Fields  []apiTable // of the path, the query, the body and the answer
	Refused []string   // the statuses of its problems
}

// apiExample is a call with curl.
type apiExample struct{ Options, Path, Body string }

type apiTable struct {
	Name   string
	Fields []apiField
}

type apiField struct {
	Name, Kind, About string
	Limits            []string
	Required          bool
}

type apiProblem struct{ Status, About string }

// apiDocument has the fields of an OpenAPI document that the page shows.
type apiDocument struct {
	Info       struct{ Description string }
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]apiPathItem
	Components struct {
		Schemas   map[string]apiSchema
		Responses map[string]struct{ Description string }
	}
}

type apiPathItem struct {
	OperationID, Summary, Description string
	Tags                              []string
	Parameters                        []struct {
		Name, In, Description string
		Required              bool
		Schema                apiSchema
	}
	RequestBody *struct {
		Required bool
		Content  apiContent
	}
	Responses map[string]struct{ Content apiContent }
}

type apiContent map[string]struct{ Schema apiSchema }

type apiSchema struct {
	Ref                string `json:"$ref"`
	Type               string
	Title              string
	Description        string
	PatternDescription string
	Default            any
	Enum               []any
	Examples           []any
	Minimum, Maximum   *json.Number
	MinItems, MaxItems *int
	Longest            string `json:"x-maximum"`
	Items              *apiSchema
	Properties         map[string]apiSchema
	Required           []string
	Additional         json.RawMessage `json:"additionalProperties"`
}

// newReference reads the description of the API.
func newReference(document []byte) (*referencePage, error) {
	p := &referencePage{heading: heading{Title: "HTTP API"}}
	if document == nil {
		return p, nil
	}
	var doc apiDocument
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("the description of the API: %w", err)
	}
	for text := range strings.SplitSeq(doc.Info.Description, "\n\n") {
		lead, rest, found := strings.Cut(strings.TrimPrefix(text, "**"), "**")
		if !found {
			lead, rest = "", text
		}
		p.About = append(p.About, paragraph{lead, strings.TrimSpace(rest)})
	}
	groups := make(map[string][]apiOperation)
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			o := doc.Paths[path][method]
			groups[o.Tags[0]] = append(groups[o.Tags[0]], doc.operation(strings.ToUpper(method), path, o))
		}
	}
	for _, tag := range doc.Tags {
		p.Groups = append(p.Groups, apiGroup{tag.Name, tag.Description, groups[tag.Name]})
	}
	for name, response := range doc.Components.Responses {
		for status := 400; status < 600; status++ {
			if strings.ReplaceAll(http.StatusText(status), " ", "") == name {
				p.Problems = append(p.Problems, apiProblem{strconv.Itoa(status), response.Description})
			}
		}
	}
	slices.SortFunc(p.Problems, func(a, b apiProblem) int { return cmp.Compare(a.Status, b.Status) })
	return p, nil
}

func (doc *apiDocument) operation(method, path string, o apiPathItem) apiOperation {
	op := apiOperation{ID: o.OperationID, Method: method, Path: path, Summary: o.Summary, About: o.Description}
	op.Example = apiExample{Path: path}
	if method != http.MethodGet {
		op.Example.Options = "-X " + method
	}
	in := map[string][]apiField{}
	var query []string
	for _, p := range o.Parameters {
		if p.Name == "" { // a reference: Idempotency-Key, which every change has
			continue
		}
		f := doc.field(p.Name, p.Schema, p.Required)
		f.About = p.Description
		in[p.In] = append(in[p.In], f)
		example := exampleOf(p.Schema)
		if p.In == "path" {
			op.Example.Path = strings.ReplaceAll(op.Example.Path, "{"+p.Name+"}", cmp.Or(strings.Trim(example, `"`), p.Name))
		} else if p.Required {
			query = append(query, p.Name, cmp.Or(strings.Trim(example, `"`), p.Name))
		}
	}
	if len(query) > 0 {
		op.Example.Path += "?" + pairs(query...)
	}
	op.add("In the path", in["path"])
	op.add("In the query", in["query"])
	if o.RequestBody != nil {
		schema := o.RequestBody.Content["application/json"].Schema
		title := "In the body"
		if !o.RequestBody.Required {
			title += ", which may be left out"
		}
		fields := doc.fields("", schema, 0)
		op.add(title, fields)
		if body := doc.exampleBody(schema); body != "" {
			op.Example.Options, op.Example.Body = "", body
			if method != http.MethodPost {
				op.Example.Options = "-X " + method
			}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if status < "400" {
			answer := doc.fields("", o.Responses[status].Content["application/json"].Schema, 0)
			for i := range answer { // the text says which fields may be absent
				answer[i].Required = false
			}
			op.add("Answer "+status, answer)
		} else {
			op.Refused = append(op.Refused, status)
		}
	}
	return op
}

func (op *apiOperation) add(name string, fields []apiField) {
	if len(fields) > 0 {
		op.Fields = append(op.Fields, apiTable{name, fields})
	}
}

// resolve follows a reference. A description beside the reference counts.
func (doc *apiDocument) resolve(s apiSchema) apiSchema {
	if s.Ref == "" {
		return s
	}
	to := doc.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	if s.Description != "" {
		to.Description = s.Description
	}
	if s.Examples != nil {
		to.Examples = s.Examples
	}
	return to
}

// maxFieldDepth is how deep fields inside of fields are shown.
const maxFieldDepth = 4

// fields lists the fields of an object, and those inside them, under their paths.
func (doc *apiDocument) fields(prefix string, s apiSchema, depth int) (all []apiField) {
	s = doc.resolve(s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		below := s.Properties[name]
		all = append(all, doc.field(prefix+name, below, slices.Contains(s.Required, name)))
		if depth == maxFieldDepth {
			continue
		}
		below = doc.resolve(below)
		within := prefix + name + "."
		if below.Items != nil {
			below, within = doc.resolve(*below.Items), prefix+name+"[]."
		}
		all = append(all, doc.fields(within, below, depth+1)...)
	}
	return all
}

func (doc *apiDocument) field(name string, s apiSchema, required bool) apiField {
	s = doc.resolve(s)
	f := apiField{Name: name, Kind: doc.kind(s), About: s.Description, Required: required}
	if s.Title == "Text" && strings.HasPrefix(s.Description, "Bytes: ") { // the kind says it
		f.About = ""
	}
	if s.Default != nil {
		f.Limits = append(f.Limits, fmt.Sprint("default ", s.Default))
	}
	var enum []string
	for _, v := range s.Enum {
		enum = append(enum, fmt.Sprint(v))
	}
	if len(enum) > 0 {
		f.Limits = append(f.Limits, strings.Join(enum, ", "))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		f.Limits = append(f.Limits, fmt.Sprintf("%s to %s", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		f.Limits = append(f.Limits, "at least "+s.Minimum.String())
	case s.Maximum != nil:
		f.Limits = append(f.Limits, "at most "+s.Maximum.String())
	}
	if s.MaxItems != nil {
		f.Limits = append(f.Limits, "at most "+readable.Number(*s.MaxItems)+" entries")
	}
	return f
}

// kind returns the type of a value in words.
func (doc *apiDocument) kind(s apiSchema) string {
	var values apiSchema
	switch {
	case s.Title == "Text":
		return "text, or bytes as base64"
	case s.Title == "Score":
		return "number, inf or -inf"
	case strings.Contains(s.PatternDescription, "duration"):
		return "duration"
	case s.Items != nil:
		return "list of " + doc.kind(doc.resolve(*s.Items))
	case s.Type == "string":
		return "text"
	case s.Type == "boolean":
		return "true or false"
	case json.Unmarshal(s.Additional, &values) == nil && (values.Ref != "" || values.Type != ""):
		return "object, each value " + doc.kind(doc.resolve(values))
	}
	return s.Type
}

// exampleBody returns a short body: the required fields, or else the first field.
func (doc *apiDocument) exampleBody(s apiSchema) string {
	s = doc.resolve(s)
	names := slices.Sorted(slices.Values(s.Required))
	if len(names) == 0 && len(s.Properties) > 0 {
		names = slices.Sorted(maps.Keys(s.Properties))[:1]
	}
	var parts []string
	for _, name := range names {
		below := doc.resolve(s.Properties[name])
		value := exampleOf(below)
		switch {
		case value != "":
		case below.Items != nil:
			item := doc.resolve(*below.Items)
			value = "[" + cmp.Or(exampleOf(item), doc.exampleBody(item)) + "]"
		case below.Properties != nil:
			value = doc.exampleBody(below)
		default:
			value = map[string]string{"string": `"..."`, "boolean": "true", "object": `{"name":"value"}`}[below.Type]
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, cmp.Or(value, "1")))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// exampleOf returns the first example of a value as JSON, or nothing.
func exampleOf(s apiSchema) string {
	if len(s.Examples) == 0 {
		return ""
	}
	text, err := json.Marshal(s.Examples[0])
	if err != nil {
		return ""
	}
	return string(text)
}

// describeAPI shows the page.
func (d *Dashboard) describeAPI(a *asked) (scene, error) {
	p := *d.reference
	p.Base = a.Host + d.cfg.Prefix
	if a.TLS != nil {
		p.Base = "https://" + p.Base
	}
	return func(*survey.View) body { return p }, nil
}
