package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/jsontype"
)

// GetTTLs shows the time of fields.
var GetTTLs = operation(Row{
	ID: "getTTLs", Words: "hash ttl",
	Class: Work, Only: "over HTTP getHash shows the time, and expireFields and persistFields change it",
	Summary:  "Show how long fields have, or give them another time",
	Detail:   `"ttl_ms" is -1 for a field that stays for good and -2 for one that is not there.`,
	Examples: []string{"hash ttl sessions user:17 token theme", "hash ttl sessions user:17 token --set 1h", "hash ttl sessions user:17 token --persist"},
}, func(ctx context.Context, h OneHash, in FieldNames) (doc FieldTTLs, err error) {
	found, err := h.Of.GetMany(ctx, h.Name, jsontype.Strings(in.Fields)...)
	doc.Fields = make([]FieldTTL, len(in.Fields))
	for i, name := range in.Fields {
		doc.Fields[i] = FieldTTL{name, NoField}
		if field, ok := found[string(name)]; ok {
			doc.Fields[i].TTL = millis(field.TTL)
		}
	}
	return doc, err
})

// NoField is the TTL of a field that does not exist.
const NoField = -2

// FieldTTLs is the Out of [GetTTLs].
type FieldTTLs struct {
	Fields []FieldTTL `json:"fields"`
}

// FieldTTL is the remaining time of a field.
type FieldTTL struct {
	Field jsontype.Text `json:"field"`
	TTL   int64         `json:"ttl_ms"`
}

// ExpireFields changes the time of fields.
var ExpireFields = operation(Row{
	ID: "expireFields", Method: http.MethodPost, Path: hashPath + "/expire",
	Class: Work, Only: "hash ttl --set does it, and shows the result",
	Summary: "Change the TTL of fields",
	Detail:  "From now on; 0s removes them.",
}, func(ctx context.Context, h OneHash, in Expire) (ChangedFields, error) {
	list, err := h.Of.Expire(ctx, h.Name, in.TTL.Duration, conditions[in.If], jsontype.Strings(in.Fields)...)
	return changedFields(in.Fields, list), err
})

// Expire is the In of [ExpireFields].
type Expire struct {
	FieldNames

	TTL jsontype.Duration `json:"ttl" doc:"When they expire." example:"1h"`
	If  string            `json:"if,omitempty" enum:"no_ttl,ttl,longer,shorter" doc:"Only if a field has no TTL, or has one, or expires later by it, or earlier. Defaults to always."`
}

// conditions are the values of Expire.If.
var conditions = map[string]expiry.ExpireConfig{
	"no_ttl": {IfNoTTL: true}, "ttl": {IfTTL: true}, "longer": {IfLonger: true}, "shorter": {IfShorter: true},
}

// PersistFields removes the time of fields.
var PersistFields = operation(Row{
	ID: "persistFields", Method: http.MethodPost, Path: hashPath + "/persist",
	Class: Work, Only: "hash ttl --persist does it, and shows the result",
	Summary: "Remove the TTL of fields",
	Detail:  "They stay until they are deleted.",
}, func(ctx context.Context, h OneHash, in FieldNames) (ChangedFields, error) {
	list, err := h.Of.Expire(ctx, h.Name, expiry.NoTTL, expiry.ExpireConfig{}, jsontype.Strings(in.Fields)...)
	return changedFields(in.Fields, list), err
})

// ChangedFields is the Out of [ExpireFields] and [PersistFields].
type ChangedFields struct {
	Fields []ChangedField `json:"fields" doc:"All fields of the request, in order."`
}

// ChangedField is what became of a field.
type ChangedField struct {
	Field   jsontype.Text `json:"field" example:"\"token\""`
	Outcome string        `json:"outcome" enum:"applied,not_met,removed,no_ttl,no_field" doc:"Done; the condition was not met; the field expired at once; it had no TTL; there is no such field."`
}

var outcomes = map[expiry.Outcome]string{
	expiry.Applied: "applied", expiry.NotMet: "not_met", expiry.Removed: "removed", expiry.HasNoTTL: "no_ttl", expiry.HasNoField: "no_field",
}

func changedFields(fields []jsontype.Text, list []expiry.Outcome) ChangedFields {
	doc := ChangedFields{make([]ChangedField, len(list))}
	for i, o := range list {
		doc.Fields[i] = ChangedField{fields[i], outcomes[o]}
	}
	return doc
}
