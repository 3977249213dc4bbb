package ops

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/jsontype"
)

// hashPath is the path of a hash.
const hashPath = "/v1/hashes/{namespace}/{hash}"

// Hash names a hash in a namespace.
type Hash struct {
	Namespace jsontype.Text `arg:"" name:"ns" path:"namespace" complete:"namespace" doc:"The namespace." example:"\"sessions\""`
	Hash      jsontype.Text `arg:"" path:"hash" doc:"The hash's name." example:"\"user:17\""`
}

// Structure returns the namespace and the name, for the audit log.
func (h Hash) Structure() string { return string(h.Namespace + "/" + h.Hash) }

// Names returns the names of the namespace and of the hash in it.
func (h Hash) Names() (namespace, hash string) { return string(h.Namespace), string(h.Hash) }

// ListHashes lists the namespaces.
var ListHashes = Row{
	ID: "listHashes", Method: http.MethodGet, Path: "/v1/hashes",
	Class: Look, Only: "a person sees the namespaces on the pages, with their numbers",
	Summary: "List the namespaces of hashes by name",
	Detail:  "All registered namespaces. Every program that writes to a namespace registers it.",
}

// Namespaces are the names of namespaces.
type Namespaces struct {
	Namespaces []jsontype.Text `json:"namespaces" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// GetHash reads fields of a hash.
var GetHash = operation(Row{
	ID: "getHash", Words: "hash ls", Method: http.MethodGet, Path: hashPath, Statuses: []int{http.StatusConflict}, Class: Look,
	Summary:  "Read the fields of a hash",
	Detail:   "All fields, or over HTTP the named ones. Expired fields are absent, and a missing hash has no fields. Over HTTP a hash with more than 10,000 fields is not read whole: the error has the code too_many.",
	Examples: []string{"hash ls sessions user:17", "hash ls sessions user:17 --json"},
}, func(ctx context.Context, h OneHash, in HashQuery) (doc Fields, err error) {
	found := make(map[string]expiry.Field) // a scan may return a field twice
	if len(in.Fields) > 0 {
		if found, err = h.Of.GetMany(ctx, h.Name, in.Fields...); err != nil {
			return doc, err
		}
	} else {
		for f, err := range h.Of.Scan(ctx, h.Name) {
			if err != nil {
				return doc, err
			}
			if found[f.Name] = f; len(found) > maxFields && !in.Whole {
				return doc, errManyFields
			}
		}
	}
	doc.Fields = make([]Field, 0, len(found))
	for _, f := range slices.SortedFunc(maps.Values(found), func(a, b expiry.Field) int { return cmp.Compare(a.Name, b.Name) }) {
		doc.Fields = append(doc.Fields, Field{jsontype.Text(f.Name), jsontype.Text(f.Value), millis(f.TTL)})
	}
	return doc, nil
})

// HashQuery is the In of [GetHash].
type HashQuery struct {
	Hash

	Fields []string `query:"field,explode" nullable:"false" maxItems:"1000" doc:"A field to read; may be repeated. Defaults to all fields." example:"[\"token\"]"`
	Whole  bool     // the command prints a hash of any size
}

// maxFields is how many fields one answer contains.
const maxFields = 10_000

var errManyFields = &millrace.Error{
	Code:    "too_many",
	Message: "the hash has more than 10,000 fields",
	Hint:    "Ask for some of them with field=NAME, which may be repeated.",
}

// Fields is the Out of [GetHash].
type Fields struct {
	Fields []Field `json:"fields" doc:"Sorted by the bytes of their names."`
}

// Field is a field of a hash.
type Field struct {
	Field jsontype.Text `json:"field" example:"\"token\""`
	Value jsontype.Text `json:"value" example:"\"3f9a\""`
	TTL   int64         `json:"ttl_ms" doc:"The remaining time in milliseconds; -1 if it never expires." example:"1799912"`
}

// millis returns the remaining time of a field in milliseconds: -1 if it never expires,
// and -2 if it does not exist.
func millis(ttl time.Duration) int64 {
	if ttl < 0 {
		return int64(ttl)
	}
	return ttl.Milliseconds()
}

// GetField reads one field.
var GetField = operation(Row{
	ID: "getField", Words: "hash get",
	Class: Look, Only: "getHash reads fields by name over HTTP",
	Summary:  "Print a field",
	Detail:   `A field that does not exist or has expired fails with the code "not_found". "ttl_ms" is -1 for a field without a time.`,
	Examples: []string{"hash get sessions user:17 token", "hash get sessions user:17 token --json"},
}, func(ctx context.Context, h OneHash, field jsontype.Text) (FieldValue, error) {
	value, ttl, err := h.Of.Get(ctx, h.Name, string(field))
	return FieldValue{jsontype.Text(value), millis(ttl)}, err
})

// FieldValue is the Out of [GetField].
type FieldValue struct {
	Value jsontype.Text `json:"value"`
	TTL   int64         `json:"ttl_ms"`
}

// SetFields sets fields of a hash. The command sets one.
var SetFields = operation(Row{
	ID: "setFields", Words: "hash set", Method: http.MethodPost, Path: hashPath + "/set", Statuses: []int{http.StatusInsufficientStorage}, Class: Work,
	Summary:  "Set fields, with or without a TTL",
	Detail:   "All of them or none. The first field creates the namespace. Without a TTL, a field loses the one that it had, unless it is kept.",
	Examples: []string{"hash set sessions user:17 token 3f9a --ttl 30m", "hash set sessions user:17 theme dark", "hash set sessions user:17 token 77c0 --keep-ttl"},
}, func(ctx context.Context, h OneHash, in FieldsToSet) (doc FieldsSet, err error) {
	fields := make(map[string][]byte, len(in.Fields))
	for name, value := range parsedNames("body.fields", in.Fields, &err) {
		fields[name] = []byte(value)
	}
	if err != nil {
		return doc, err
	}
	cfg := in.Config()
	cfg.IfNone, cfg.IfExist = in.If == "none", in.If == "exist"
	doc.Set, err = h.Of.SetMany(ctx, h.Name, fields, cfg)
	return doc, err
})

// FieldsToSet is the In of [SetFields].
type FieldsToSet struct {
	Lifetime

	Fields map[string]jsontype.Text `json:"fields" minProperties:"1" maxProperties:"1000" doc:"Their names and values. A name that is not UTF-8 is the text of its base64 form."`
	If     string                   `json:"if,omitempty" enum:"none,exist" doc:"Set only if none of the fields exists, or only if all of them do. Defaults to always."`
}

// Lifetime is for how long fields are there.
type Lifetime struct {
	TTL     jsontype.Duration `json:"ttl,omitzero" name:"ttl" placeholder:"DURATION" xor:"time" doc:"When they expire. Defaults to never." example:"30m"`
	KeepTTL bool              `json:"keep_ttl,omitempty" name:"keep-ttl" xor:"time" doc:"Keep the TTL of each field. Without it and without a ttl, the fields never expire."`
}

// Config returns it as a structure takes it.
func (l Lifetime) Config() expiry.SetConfig {
	return expiry.SetConfig{TTL: l.TTL.Duration, KeepTTL: l.KeepTTL}
}

// FieldsSet is the Out of [SetFields].
type FieldsSet struct {
	Set bool `json:"set" doc:"False if the condition was not met; then nothing was changed." example:"true"`
}

// IncrementField adds to a field.
var IncrementField = operation(Row{
	ID: "incrementField", Method: http.MethodPost, Path: hashPath + "/incr", Statuses: []int{http.StatusInsufficientStorage},
	Class: Work, Only: "programs count, and people set fields: hash set",
	Summary: "Add to a field that holds a whole number",
	Detail:  "It keeps its TTL. A missing field starts at 0, without a TTL.",
}, func(ctx context.Context, h OneHash, in Increment) (doc Incremented, err error) {
	doc.Value, err = h.Of.Incr(ctx, h.Name, string(in.Field), in.By)
	return doc, err
})

// Increment is the In of [IncrementField].
type Increment struct {
	Field jsontype.Text `json:"field" example:"\"visits\""`
	By    int64         `json:"by" doc:"How much to add; may be negative." example:"1"`
}

// Incremented is the Out of [IncrementField].
type Incremented struct {
	Value int64 `json:"value" doc:"The sum." example:"18"`
}

// DeleteHash deletes a hash. The command hash rm is this operation where it names no fields.
var DeleteHash = operation(Row{
	ID: "deleteHash", Words: "hash rm", Method: http.MethodDelete, Path: hashPath,
	Class: Change, Action: "hash.delete", Only: "the pages show namespaces, and no hashes",
	Summary:  "Delete a hash with all its fields",
	Detail:   "The answer counts the fields that existed.",
	Examples: []string{"hash rm sessions user:17 token", "hash rm sessions user:17", "hash rm sessions --all"},
}, func(ctx context.Context, h OneHash, _ Hash) (doc Deleted, err error) {
	if doc.Deleted, err = h.Of.Len(ctx, h.Name); err == nil {
		_, err = h.Of.RemoveHash(ctx, h.Name)
	}
	return doc, err
})

// DeleteFields deletes fields of a hash.
var DeleteFields = operation(Row{
	ID: "deleteFields", Method: http.MethodPost, Path: hashPath + "/delete",
	Class: Work, Only: "hash rm deletes fields, if it names some",
	Summary: "Delete fields",
	Detail:  "The answer counts the fields that existed.",
}, func(ctx context.Context, h OneHash, in FieldNames) (doc Deleted, err error) {
	doc.Deleted, err = h.Of.Remove(ctx, h.Name, jsontype.Strings(in.Fields)...)
	return doc, err
})

// FieldNames names fields.
type FieldNames struct {
	Fields []jsontype.Text `json:"fields" arg:"" name:"field" minItems:"1" maxItems:"1000" doc:"The fields." example:"[\"token\"]"`
}
