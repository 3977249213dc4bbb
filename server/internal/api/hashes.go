package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

const hashPath = "/v1/hashes/{namespace}/{hash}"

func (a *API) routeHashes() {
	register(a, op(http.MethodGet, "/v1/hashes", "listHashes", "List the namespaces of hashes by name",
		"All registered namespaces. Every program that writes to a namespace registers it."),
		func(ctx context.Context, _ *ops.Nothing) (namespaceNames, error) {
			names, missing, err := a.namesOf(ctx, expiry.List)
			return namespaceNames{names, missing}, err
		})
	onHash(a, op(http.MethodGet, hashPath, "getHash", "Read the fields of a hash",
		"All fields, or the named ones. Expired fields are absent, and a missing hash has no fields. A hash with more than 10,000 fields is not read whole: the error has the code too_many.",
		http.StatusConflict), getHash)
	onHash(a, op(http.MethodDelete, hashPath, "deleteHash", "Delete a hash with all its fields",
		"The answer counts the fields that existed."),
		func(ctx context.Context, h *expiry.Hashes, in *Hashed) (doc document.Deleted, err error) {
			if doc.Deleted, err = h.Len(ctx, in.Hash); err == nil {
				_, err = h.RemoveHash(ctx, in.Hash)
			}
			return doc, err
		})
	onHash(a, op(http.MethodPost, hashPath+"/set", "setFields", "Set fields, with or without a TTL",
		"All of them or none. The first field creates the namespace.", http.StatusInsufficientStorage), setFields)
	onHash(a, op(http.MethodPost, hashPath+"/incr", "incrementField", "Add to a field that holds a whole number",
		"It keeps its TTL. A missing field starts at 0, without a TTL.", http.StatusInsufficientStorage),
		func(ctx context.Context, h *expiry.Hashes, in *hashedWith[incrRequest]) (doc incremented, err error) {
			doc.Value, err = h.Incr(ctx, in.Hash, string(in.Body.Field), in.Body.By)
			return doc, err
		})
	onHash(a, op(http.MethodPost, hashPath+"/expire", "expireFields", "Change the TTL of fields",
		"From now on; 0s removes them."),
		func(ctx context.Context, h *expiry.Hashes, in *hashedWith[expireRequest]) (changedFields, error) {
			list, err := h.Expire(ctx, in.Hash, in.Body.TTL.Duration, conditions[in.Body.If], document.Strings(in.Body.Fields)...)
			return ofOutcomes(in.Body.Fields, list), err
		})
	onHash(a, op(http.MethodPost, hashPath+"/persist", "persistFields", "Remove the TTL of fields",
		"They stay until they are deleted."),
		func(ctx context.Context, h *expiry.Hashes, in *hashedWith[fieldsRequest]) (changedFields, error) {
			list, err := h.Persist(ctx, in.Hash, document.Strings(in.Body.Fields)...)
			return ofOutcomes(in.Body.Fields, list), err
		})
	onHash(a, op(http.MethodPost, hashPath+"/delete", "deleteFields", "Delete fields",
		"The answer counts the fields that existed."),
		func(ctx context.Context, h *expiry.Hashes, in *hashedWith[fieldsRequest]) (doc document.Deleted, err error) {
			doc.Deleted, err = h.Remove(ctx, in.Hash, document.Strings(in.Body.Fields)...)
			return doc, err
		})
}

// Hashed is a request about a hash. It is exported because huma reads it by reflection.
type Hashed struct {
	Namespace string `path:"namespace" doc:"The namespace, percent-encoded." example:"sessions"`
	Hash      string `path:"hash" doc:"The hash's name, percent-encoded." example:"user:17"`
}

func (h Hashed) namespace() string { return h.Namespace }

// Structure returns the namespace and the name, for the audit log.
func (h Hashed) Structure() string { return h.Namespace + "/" + h.Hash }

type hashedWith[B any] struct {
	Hashed

	Body B
}

// onHash registers an operation on a hash in one namespace. A server that may evict its keys
// is accepted, and the logger warns of it.
func onHash[I interface{ namespace() string }, O any](a *API, o huma.Operation, do func(context.Context, *expiry.Hashes, *I) (O, error)) {
	on(a, o, func(ctx context.Context, in *I) (*expiry.Hashes, error) {
		name := (*in).namespace()
		return a.hashes.get(name, func() (*expiry.Hashes, error) {
			return expiry.Open(ctx, a.cfg.Client, name, expiry.Config{
				AllowEvictable: true, Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
			})
		})
	}, do)
}

type namespaceNames struct {
	Namespaces []document.Text `json:"namespaces" doc:"Their names, sorted by their bytes."`
	document.Incomplete
}

type getHashRequest struct {
	Hashed

	Fields []string `query:"field,explode" nullable:"false" maxItems:"1000" doc:"A field to read; may be repeated. Defaults to all fields." example:"[\"token\"]"`
}

// maxFields is how many fields one answer contains.
const maxFields = 10_000

var errManyFields = &millrace.Error{
	Code:    "too_many",
	Message: "the hash has more than 10,000 fields",
	Hint:    "Ask for some of them with field=NAME, which may be repeated.",
}

func getHash(ctx context.Context, h *expiry.Hashes, in *getHashRequest) (doc document.Fields, err error) {
	found := make(map[string]expiry.Field) // a scan may return a field twice
	if len(in.Fields) > 0 {
		if found, err = h.GetMany(ctx, in.Hash, in.Fields...); err != nil {
			return doc, err
		}
	} else {
		for f, err := range h.Scan(ctx, in.Hash) {
			if err != nil {
				return doc, err
			}
			if found[f.Name] = f; len(found) > maxFields {
				return doc, errManyFields
			}
		}
	}
	return document.OfFields(slices.Collect(maps.Values(found))), nil
}

type setRequest struct {
	Fields  map[string]document.Text `json:"fields" minProperties:"1" maxProperties:"1000" doc:"Their names and values. A name that is not UTF-8 is the text of its base64 form."`
	TTL     document.Duration        `json:"ttl,omitzero" doc:"When they expire. Defaults to never." example:"30m"`
	KeepTTL bool                     `json:"keep_ttl,omitempty" doc:"Keep the TTL of each field. Without it and without a ttl, the fields never expire."`
	If      string                   `json:"if,omitempty" enum:"none,exist" doc:"Set only if none of the fields exists, or only if all of them do. Defaults to always."`
}

type fieldsSet struct {
	Set bool `json:"set" doc:"False if the condition was not met; then nothing was changed." example:"true"`
}

func setFields(ctx context.Context, h *expiry.Hashes, in *hashedWith[setRequest]) (doc fieldsSet, err error) {
	fields := make(map[string][]byte, len(in.Body.Fields))
	for given, value := range in.Body.Fields {
		name, err := document.ParseText(given)
		if err != nil {
			return doc, err
		}
		if _, twice := fields[string(name)]; twice {
			return doc, errRequest.Errorf("body.fields has the field %.40q twice, as text and in its base64 form", name)
		}
		fields[string(name)] = []byte(value)
	}
	doc.Set, err = h.SetMany(ctx, in.Hash, fields, expiry.SetConfig{
		TTL: in.Body.TTL.Duration, KeepTTL: in.Body.KeepTTL, IfNone: in.Body.If == "none", IfExist: in.Body.If == "exist",
	})
	return doc, err
}

type incrRequest struct {
	Field document.Text `json:"field" example:"\"visits\""`
	By    int64         `json:"by" doc:"How much to add; may be negative." example:"1"`
}

type incremented struct {
	Value int64 `json:"value" doc:"The sum." example:"18"`
}

type fieldsRequest struct {
	Fields []document.Text `json:"fields" minItems:"1" maxItems:"1000" example:"[\"token\"]"`
}

type expireRequest struct {
	Fields []document.Text   `json:"fields" minItems:"1" maxItems:"1000" example:"[\"token\"]"`
	TTL    document.Duration `json:"ttl" doc:"When they expire." example:"1h"`
	If     string            `json:"if,omitempty" enum:"no_ttl,ttl,longer,shorter" doc:"Only if a field has no TTL, or has one, or expires later by it, or earlier. Defaults to always."`
}

// conditions are the values of expireRequest.If.
var conditions = map[string]expiry.ExpireConfig{
	"no_ttl": {IfNoTTL: true}, "ttl": {IfTTL: true}, "longer": {IfLonger: true}, "shorter": {IfShorter: true},
}

type changedFields struct {
	Fields []changedField `json:"fields" doc:"All fields of the request, in order."`
}

type changedField struct {
	Field   document.Text `json:"field" example:"\"token\""`
	Outcome string        `json:"outcome" enum:"applied,not_met,removed,no_ttl,no_field" doc:"Done; the condition was not met; the field expired at once; it had no TTL; there is no such field."`
}

var outcomes = map[expiry.Outcome]string{
	expiry.Applied: "applied", expiry.NotMet: "not_met", expiry.Removed: "removed", expiry.HasNoTTL: "no_ttl", expiry.HasNoField: "no_field",
}

func ofOutcomes(fields []document.Text, list []expiry.Outcome) changedFields {
	doc := changedFields{make([]changedField, len(list))}
	for i, o := range list {
		doc.Fields[i] = changedField{fields[i], outcomes[o]}
	}
	return doc
}
