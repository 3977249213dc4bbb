package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/millrace/millrace/internal/document"
)

// about is what /openapi.json says of the API as a whole.
const about = `Work distribution on Redis: queues for many tenants, dirty lists, leases, hashes whose fields expire, counters over several servers.

**Names** in paths are percent-encoded: a slash is %2F. In paths and queries any byte may be encoded. In JSON, text is UTF-8, and other bytes are {"base64":"..."}.

**Durations** are given as text, such as "500ms" or "10m", and told in milliseconds, in fields that end in _ms.

**Errors** are application/problem+json by RFC 9457, with a stable code for programs and a hint for people.

**Repeating.** What changes something may have been done although its answer was lost. A request with an Idempotency-Key may be repeated as it was for 24 hours: it is done once, and answered alike.

**At least once.** A message is delivered, and a mark is handed out, until its reader acknowledges it, so work must be idempotent.`

// tags are the kinds of structures.
var tags = []*huma.Tag{
	{Name: "queues", Description: "Messages of many tenants, who take turns; each is delivered until it is acknowledged, cancelled, expired or dead."},
	{Name: "icks", Description: "Dirty lists: marks that fold, batches that are never forgotten."},
	{Name: "leases", Description: "Locks that stay until their deadline, with fences."},
	{Name: "hashes", Description: "Hashes whose fields expire one by one, at their time by the server's clock."},
	{Name: "counters", Description: "Counters over several servers: written to one, read from all."},
}

// refusals are the statuses of problems, and which codes they have.
var refusals = map[int]string{
	http.StatusBadRequest:            "The request is wrong: bad_request, bad_path, bad_utf8, bad_key, bad_name, bad_argument, bad_score. Nothing was done.",
	http.StatusUnauthorized:          "The service asks for credentials: unauthorized.",
	http.StatusForbidden:             "A browser asks for this on behalf of another site: cross_origin.",
	http.StatusNotFound:              "There is no such thing: not_found.",
	http.StatusMethodNotAllowed:      "Nothing that can be done here: method_not_allowed.",
	http.StatusRequestTimeout:        "The body did not come in time: slow_body.",
	http.StatusConflict:              "What is there does not allow it: stale, held, lost, expired, evictable, retired, not_a_number, wrong_type, overflow, too_many; or the same request is under way: in_progress.",
	http.StatusRequestEntityTooLarge: "The body is too large: too_large.",
	http.StatusUnsupportedMediaType:  "The body is not said to be JSON: media_type.",
	http.StatusMisdirectedRequest:    "The service does not know itself by the name in the request: misdirected.",
	http.StatusUnprocessableEntity:   "The Idempotency-Key was used for another query or body: key_reused.",
	http.StatusInternalServerError:   "A structure is broken, or the service failed: broken, failed.",
	http.StatusNotImplemented:        "The structure was written in a version that this service does not know: unknown_version.",
	http.StatusBadGateway:            "Redis refused: no_permission, redis.",
	http.StatusServiceUnavailable:    "Redis cannot be asked, or only in part, or did not answer in time: unavailable, timeout, read_only, uncertain, partial, stranger, closed. Retry-After says when to repeat it.",
	http.StatusInsufficientStorage:   "Redis is full, and nothing was written: full.",
}

// always are those that any operation may answer with.
var always = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest,
	http.StatusInternalServerError, http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable,
}

// describe begins the description of the API, and makes huma answer as it says.
func (a *API) describe() huma.API {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	shape := schemas.Schema(reflect.TypeFor[problem](), true, "")
	server := a.cfg.Prefix
	if server == "" {
		server = "/"
	}
	responses := make(map[string]*huma.Response, len(refusals))
	for status, says := range refusals {
		responses[responseName(status)] = &huma.Response{
			Description: says,
			Content:     map[string]*huma.MediaType{problemType: {Schema: shape}},
		}
	}
	for _, status := range []int{http.StatusConflict, http.StatusServiceUnavailable} {
		responses[responseName(status)].Headers = map[string]*huma.Param{
			"Retry-After": {Description: "In seconds; of a conflict only with in_progress.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		}
	}
	least, most := 1, maxKey
	format := huma.Format{
		Marshal:   document.Encode,
		Unmarshal: func(data []byte, v any) error { return said(json.Unmarshal(data, v)) },
	}
	described := humago.New(a.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			Info:    &huma.Info{Title: "Millrace", Version: "1", Description: about},
			Servers: []*huma.Server{{URL: server}},
			Tags:    tags,
			Components: &huma.Components{
				Schemas:   schemas,
				Responses: responses,
				Parameters: map[string]*huma.Param{keyHeader: {
					Name: keyHeader, In: "header",
					Description: "Has the request done once, however often it is sent as it is with this key within 24 hours.",
					Schema:      &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most, Examples: []any{"8e03978e-40d5-43dd-bc93-6894a57f9324"}},
				}},
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer"},
					"basic":  {Type: "http", Scheme: "basic"},
				},
			},
			Security: []map[string][]string{{"bearer": {}}, {"basic": {}}, {}},
		},
		Formats:                      map[string]huma.Format{jsonType: format, problemType: format},
		DefaultFormat:                jsonType,
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{problems},
	})
	described.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) { next(exchange{ctx}) })
	return described
}

func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// op begins the description of an operation. The first of the statuses may be that
// of success; the others are those of problems that not all operations have.
func op(method, path, id, summary, description string, statuses ...int) huma.Operation {
	o := huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary, Description: description, DefaultStatus: http.StatusOK}
	if len(statuses) > 0 && statuses[0] < http.StatusBadRequest {
		o.DefaultStatus, statuses = statuses[0], statuses[1:]
	}
	o.Errors = statuses
	return o
}

// operation completes the description of an operation. Bodies were read before.
func operation(o huma.Operation) huma.Operation {
	statuses := slices.Concat(always, o.Errors)
	o.Errors = nil // which huma would describe in its own way
	o.Tags = []string{strings.Split(o.Path, "/")[2]}
	o.MaxBodyBytes, o.BodyReadTimeout = -1, -1
	success := &huma.Response{Description: "Done."}
	if o.Method != http.MethodGet {
		o.Parameters = []*huma.Param{{Ref: "#/components/parameters/" + keyHeader}}
		statuses = append(statuses, http.StatusConflict, http.StatusUnprocessableEntity)
		success.Headers = map[string]*huma.Param{replayedHeader: {
			Description: "The answer is that of an earlier request with the same key.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
		}}
	}
	if o.Method == http.MethodPost {
		statuses = append(statuses, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	o.Responses = map[string]*huma.Response{strconv.Itoa(o.DefaultStatus): success}
	for _, status := range statuses {
		o.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + responseName(status)}
	}
	return o
}

// publish makes the description an answer, when all operations are there.
func (a *API) publish() error {
	spec := a.huma.OpenAPI()
	schemas := spec.Components.Schemas.Map()
	for _, own := range []string{"ErrorModel", "ErrorDetail"} { // huma's, which nothing answers with
		delete(schemas, own)
	}
	asked := make(map[string]bool)
	for path, item := range spec.Paths {
		if item.Post != nil {
			body := item.Post.RequestBody.Content[jsonType].Schema
			a.bodies[http.MethodPost+" "+path] = body
			reach(spec.Components.Schemas, body, asked)
		}
	}
	for name, schema := range schemas {
		neverNull(schema)
		if !asked["#/components/schemas/"+name] {
			schema.AdditionalProperties = nil // answers may have more one day
		}
	}
	page, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write(page) // to somebody who may have gone
	})
	return nil
}

// neverNull says of all lists in a schema that they are lists, if they are there.
func neverNull(s *huma.Schema) {
	s.Nullable = false
	for _, below := range parts(s) {
		neverNull(below)
	}
}

// reach marks all references of a schema, and of those that it refers to.
func reach(r huma.Registry, s *huma.Schema, marked map[string]bool) {
	if s.Ref != "" && !marked[s.Ref] {
		marked[s.Ref] = true
		reach(r, r.SchemaFromRef(s.Ref), marked)
	}
	for _, below := range parts(s) {
		reach(r, below, marked)
	}
}

// parts returns the schemas that a schema is made of.
func parts(s *huma.Schema) []*huma.Schema {
	all := slices.Collect(maps.Values(s.Properties))
	if s.Items != nil {
		all = append(all, s.Items)
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		all = append(all, values)
	}
	return all
}
