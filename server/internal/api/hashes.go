package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/document"
)

const hashPath = "/v1/hashes/{namespace}/{hash}"

func (a *API) routeHashes() {
	register(a, op(http.MethodGet, "/v1/hashes", "listHashes", "List the namespaces of hashes by name",
		"Those that are registered, as each is by those who write to it."), a.listHashes)
	register(a, op(http.MethodGet, hashPath, "getHash", "Read the fields of a hash",
		"All of them, or those that are named. Fields whose time is over are not there, and a hash that is not there has none. One with more than 10,000 fields is not read whole, which is an error with the code too_many.",
		http.StatusConflict), a.getHash)
	register(a, op(http.MethodDelete, hashPath, "deleteHash", "Delete a hash with all its fields",
		"The count is that of fields which were there."), a.deleteHash)
	register(a, op(http.MethodPost, hashPath+"/set", "setFields", "Set fields, for a time or for good",
		"All of them or none. A namespace begins with its first field.", http.StatusInsufficientStorage), a.setFields)
	register(a, op(http.MethodPost, hashPath+"/incr", "incrementField", "Add to a field that holds a whole number",
		"It keeps its time. One that is not there starts at 0, without a time.", http.StatusInsufficientStorage), a.incrementField)
	register(a, op(http.MethodPost, hashPath+"/expire", "expireFields", "Give fields another time",
		"From now on; 0s removes them."), a.expireFields)
	register(a, op(http.MethodPost, hashPath+"/persist", "persistFields", "Have fields stay for good",
		"Takes the time away that they have."), a.persistFields)
	register(a, op(http.MethodPost, hashPath+"/delete", "deleteFields", "Delete fields",
		"The count is that of those which were there."), a.deleteFields)
}

// hashed is a request about a hash.
type hashed struct {
	Namespace string `path:"namespace" doc:"The namespace, percent-encoded." example:"sessions"`
	Hash      string `path:"hash" doc:"The hash's name, percent-encoded." example:"user:17"`
}

// hashedWith is such a request with a body.
type hashedWith[B any] struct {
	Namespace string `path:"namespace" doc:"The namespace, percent-encoded." example:"sessions"`
	Hash      string `path:"hash" doc:"The hash's name, percent-encoded." example:"user:17"`
	Body      B
}

// space returns the namespace of that name, for calls that a server which may evict its
// keys does not stop.
func (a *API) space(ctx context.Context, name string) (*expiry.Hashes, error) {
	return a.openHashes(ctx, hashSpace{name, true})
}

// spaceToSet returns the namespace of that name, for calls that set fields.
func (a *API) spaceToSet(ctx context.Context, name string) (*expiry.Hashes, error) {
	return a.openHashes(ctx, hashSpace{name, false})
}

// hashSpace is a namespace of hashes as calls use it.
type hashSpace struct {
	name      string
	evictable bool // servers that may evict any key are accepted
}

func (a *API) openHashes(ctx context.Context, space hashSpace) (*expiry.Hashes, error) {
	return a.hashes.get(space, func() (*expiry.Hashes, error) {
		return expiry.Open(ctx, a.cfg.Client, space.name, expiry.Config{
			AllowEvictable: space.evictable, Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

// namespaceNames is the names of namespaces.
type namespaceNames struct {
	Namespaces []document.Text `json:"namespaces" doc:"Their names, sorted by their bytes."`
	document.Incomplete
}

func (a *API) listHashes(ctx context.Context, _ *nothing) (namespaceNames, error) {
	var names []string
	var err error
	for name, failed := range expiry.List(ctx, a.cfg.Client) {
		if err = failed; err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	part, err := a.whole(ctx, err)
	return namespaceNames{document.Texts(names), part}, err
}

// getHashRequest asks for fields.
type getHashRequest struct {
	Namespace string   `path:"namespace" doc:"The namespace, percent-encoded." example:"sessions"`
	Hash      string   `path:"hash" doc:"The hash's name, percent-encoded." example:"user:17"`
	Fields    []string `query:"field,explode" nullable:"false" maxItems:"1000" doc:"A field to read; may be repeated. Defaults to all of them." example:"[\"token\"]"`
}

// maxFields is how many fields are answered at once.
const maxFields = 10_000

var errManyFields = &millrace.Error{
	Code:    "too_many",
	Message: "the hash has more than 10,000 fields",
	Hint:    "Ask for some of them with field=NAME, which may be repeated.",
}

func (a *API) getHash(ctx context.Context, in *getHashRequest) (doc document.Fields, err error) {
	h, err := a.space(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	found := make(map[string]expiry.Field) // a scan may bring a field twice
	if len(in.Fields) > 0 {
		found, err = h.GetMany(ctx, in.Hash, in.Fields...)
		if err != nil {
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

func (a *API) deleteHash(ctx context.Context, in *hashed) (doc document.Deleted, err error) {
	h, err := a.space(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	if doc.Deleted, err = h.Len(ctx, in.Hash); err == nil {
		_, err = h.RemoveHash(ctx, in.Hash)
	}
	return doc, err
}

// setRequest says what fields are to be.
type setRequest struct {
	Fields  map[string]document.Text `json:"fields" minProperties:"1" maxProperties:"1000" doc:"Their names and values. A name that is not UTF-8 is the text of its base64 form."`
	TTL     document.Duration        `json:"ttl,omitzero" doc:"After how long they are gone. Defaults to never." example:"30m"`
	KeepTTL bool                     `json:"keep_ttl,omitempty" doc:"Leave each field the time that it has; without it, and without a ttl, they stay for good."`
	If      string                   `json:"if,omitempty" enum:"none,exist" doc:"Set only if none of them is there, or only if all of them are. Defaults to always."`
}

// fieldsSet is what came of it.
type fieldsSet struct {
	Set     bool `json:"set" doc:"False if the condition was not met; then nothing was changed." example:"true"`
	Created int  `json:"created" doc:"How many of them were not there before." example:"1"`
}

func (a *API) setFields(ctx context.Context, in *hashedWith[setRequest]) (doc fieldsSet, err error) {
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
	h, err := a.spaceToSet(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	result, err := h.SetMany(ctx, in.Hash, fields, expiry.SetConfig{
		TTL: in.Body.TTL.Duration, KeepTTL: in.Body.KeepTTL, IfNone: in.Body.If == "none", IfExist: in.Body.If == "exist",
	})
	return fieldsSet(result), err
}

// incrRequest says how much is to be added.
type incrRequest struct {
	Field document.Text `json:"field" example:"\"visits\""`
	By    int64         `json:"by" doc:"How much; less than 0 to take away." example:"1"`
}

// incremented is the sum.
type incremented struct {
	Value int64 `json:"value" doc:"The sum." example:"18"`
}

func (a *API) incrementField(ctx context.Context, in *hashedWith[incrRequest]) (doc incremented, err error) {
	h, err := a.spaceToSet(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	doc.Value, err = h.Incr(ctx, in.Hash, string(in.Body.Field), in.Body.By)
	return doc, err
}

// fieldsRequest names fields.
type fieldsRequest struct {
	Fields []document.Text `json:"fields" minItems:"1" maxItems:"1000" example:"[\"token\"]"`
}

// expireRequest gives fields another time.
type expireRequest struct {
	Fields []document.Text   `json:"fields" minItems:"1" maxItems:"1000" example:"[\"token\"]"`
	TTL    document.Duration `json:"ttl" doc:"After how long they are gone." example:"1h"`
	If     string            `json:"if,omitempty" enum:"no_ttl,ttl,longer,shorter" doc:"Only if a field has no time, or has one, or stays longer by it, or shorter. Defaults to always."`
}

// conditions are what If may say.
var conditions = map[string]expiry.ExpireConfig{
	"no_ttl": {IfNoTTL: true}, "ttl": {IfTTL: true}, "longer": {IfLonger: true}, "shorter": {IfShorter: true},
}

// changedFields is what came of a change of fields' times.
type changedFields struct {
	Fields []changedField `json:"fields" doc:"All that were named, in order."`
}

// changedField is what came of it for one field.
type changedField struct {
	Field   document.Text `json:"field" example:"\"token\""`
	Outcome string        `json:"outcome" enum:"applied,not_met,removed,no_ttl,no_field" doc:"Done; the condition was not met; the time was over at once, so the field is gone; there was no time to take away; there is no such field."`
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

func (a *API) expireFields(ctx context.Context, in *hashedWith[expireRequest]) (doc changedFields, err error) {
	h, err := a.space(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	list, err := h.Expire(ctx, in.Hash, in.Body.TTL.Duration, conditions[in.Body.If], document.Strings(in.Body.Fields)...)
	return ofOutcomes(in.Body.Fields, list), err
}

func (a *API) persistFields(ctx context.Context, in *hashedWith[fieldsRequest]) (doc changedFields, err error) {
	h, err := a.space(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	list, err := h.Persist(ctx, in.Hash, document.Strings(in.Body.Fields)...)
	return ofOutcomes(in.Body.Fields, list), err
}

func (a *API) deleteFields(ctx context.Context, in *hashedWith[fieldsRequest]) (doc document.Deleted, err error) {
	h, err := a.space(ctx, in.Namespace)
	if err != nil {
		return doc, err
	}
	doc.Deleted, err = h.Remove(ctx, in.Hash, document.Strings(in.Body.Fields)...)
	return doc, err
}
