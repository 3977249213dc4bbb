package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
)

const about = `Work distribution on Redis: queues for many tenants, dirty lists, leases, hashes whose fields expire, counters over several servers.

**Names** in paths are percent-encoded: a slash is %2F. In paths and queries any byte may be encoded. In JSON, text is UTF-8, and other bytes are {"base64":"..."}.

**Durations** in requests are text, such as "500ms" or "10m"; in answers they are milliseconds, in fields that end in _ms.

**Errors** are application/problem+json by RFC 9457, with a stable code for programs and a hint for people.

**Repeating.** A change may be applied although its answer was lost. For 24 hours, a request with an Idempotency-Key may be repeated unchanged: it is applied once, and the answer is the same for as long as it is true. A refusal (4xx) changed nothing, and a repeat may succeed.

**Roles.** Credentials have a role, x-role is the least one that an operation needs: viewer for looking, worker for programs, operator for all. They may be limited to names with a prefix: lists have only these, and other names are forbidden.

**At least once.** Messages and marks are delivered until they are acknowledged, so work must be idempotent.`

// tags are the kinds of structures.
var tags = []*huma.Tag{
	{Name: "queues", Description: "Messages of many tenants, who take turns; each is delivered until it is acknowledged, cancelled, expired or dead."},
	{Name: "schedules", Description: "Messages that a queue writes by the clock, without another process."},
	{Name: "icks", Description: "Dirty lists (Ick): repeated marks fold into one, and no mark is forgotten."},
	{Name: "channels", Description: "Dirty lists for several workers: several lists behind one name, each with one worker at a time."},
	{Name: "leases", Description: "Locks with a deadline and a fence."},
	{Name: "hashes", Description: "Hashes whose fields expire one by one, at their time by the server's clock."},
	{Name: "pinned", Description: "Values that exist until their time and not after it, by the server's clock."},
	{Name: "trackers", Description: "Which identifiers have work queued in a table of SQL, answered from memory."},
	{Name: "counters", Description: "Counters over several servers: written to one, read from all."},
	{Name: "audit", Description: "What operators changed, and when."},
}

// always are the statuses that any operation may return.
var always = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest,
	http.StatusInternalServerError, http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable,
}

// describe creates the description of the API, and configures huma to follow it.
func (a *API) describe() huma.API {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	shape := schemas.Schema(reflect.TypeFor[problem](), true, "")
	server := a.cfg.Prefix
	if server == "" {
		server = "/"
	}
	responses := make(map[string]*huma.Response, len(refusals))
	for status, r := range refusals {
		responses[responseName(status)] = &huma.Response{
			Description: r.meaning + ": " + strings.ReplaceAll(r.codes, " ", ", ") + ".",
			Content:     map[string]*huma.MediaType{problemType: {Schema: shape}},
		}
	}
	for _, status := range []int{http.StatusConflict, http.StatusServiceUnavailable} {
		responses[responseName(status)].Headers = map[string]*huma.Param{
			"Retry-After": {Description: "In seconds; with a conflict only for in_progress.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		}
	}
	least, most := 1, maxKey
	format := huma.Format{
		Marshal:   jsontype.Encode,
		Unmarshal: unmarshal,
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
					Description: "Applies the request once, however often it is sent unchanged with this key within 24 hours.",
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

// operation describes an operation. admit reads bodies, so huma sets no limits.
func operation(r ops.Row) huma.Operation {
	o := huma.Operation{
		Method: r.Method, Path: r.Path, OperationID: r.ID, Summary: r.Summary, Description: r.Detail, DefaultStatus: http.StatusOK,
		Extensions: map[string]any{"x-role": roleOf(r)}, MaxBodyBytes: -1, BodyReadTimeout: -1,
	}
	statuses := slices.Concat(always, r.Statuses)
	if len(r.Statuses) > 0 && r.Statuses[0] < http.StatusBadRequest {
		o.DefaultStatus, statuses = r.Statuses[0], slices.Concat(always, r.Statuses[1:])
	}
	o.Tags = []string{strings.Split(o.Path, "/")[2]}
	if strings.Contains(o.Path, "/schedules") {
		o.Tags[0] = "schedules"
	}
	success := &huma.Response{Description: "Done."}
	if o.Method != http.MethodGet {
		o.Parameters = []*huma.Param{{Ref: "#/components/parameters/" + keyHeader}}
		statuses = append(statuses, http.StatusConflict, http.StatusUnprocessableEntity)
		success.Headers = map[string]*huma.Param{replayedHeader: {
			Description: "This is the answer to an earlier request with the same key.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
		}}
	}
	if o.Method == http.MethodPost || o.Method == http.MethodPut {
		statuses = append(statuses, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	o.Responses = map[string]*huma.Response{strconv.Itoa(o.DefaultStatus): success}
	for _, status := range statuses {
		o.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + responseName(status)}
	}
	return o
}

// describeWait adds the longest wait to the description of a field. JSON Schema has no limit
// for durations as text, so programs find it in x-maximum.
func (a *API) describeWait(path, field string) {
	spec := a.huma.OpenAPI()
	body := spec.Components.Schemas.SchemaFromRef(spec.Paths[path].Post.RequestBody.Content[jsonType].Schema.Ref)
	wait := *body.Properties[field]
	most := short(a.cfg.MaxBlock)
	wait.Description += " At most " + most + "; a longer one is refused."
	wait.Extensions = map[string]any{"x-maximum": most}
	body.Properties[field] = &wait
}

// short writes a duration as people do: 1m, and not 1m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// publish serves the description, after all operations are registered.
func (a *API) publish() error {
	spec := a.huma.OpenAPI()
	for path, item := range spec.Paths {
		for _, o := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if o != nil {
				asStrings(o.Parameters)
				a.lists[o.Method+" "+path] = listsIn(o.Parameters)
			}
		}
	}
	schemas := spec.Components.Schemas.Map()
	for _, own := range []string{"ErrorModel", "ErrorDetail"} { // huma's, which are not used
		delete(schemas, own)
	}
	asked := make(map[string]bool)
	for path, item := range spec.Paths {
		for method, o := range map[string]*huma.Operation{http.MethodPost: item.Post, http.MethodPut: item.Put} {
			if o != nil {
				body := o.RequestBody.Content[jsonType].Schema
				a.bodies[method+" "+path] = body
				reach(spec.Components.Schemas, body, asked)
			}
		}
	}
	for name, schema := range schemas {
		neverNull(schema)
		if !asked["#/components/schemas/"+name] {
			schema.AdditionalProperties = nil // answers may get more fields
		}
	}
	page, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	a.document = page
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write(page) // the client may have gone
	})
	return nil
}

// asStrings describes bytes as strings where they are in a path or a query, in which any byte is encoded.
func asStrings(parameters []*huma.Param) {
	for _, p := range parameters {
		if p.Schema != nil && p.Schema.Ref == "#/components/schemas/Text" {
			p.Schema.Ref, p.Schema.Type = "", huma.TypeString
			p.Schema.PrecomputeMessages()
		}
	}
}

// listsIn returns the names of parameters that may be repeated.
func listsIn(parameters []*huma.Param) map[string]bool {
	lists := make(map[string]bool)
	for _, p := range parameters {
		if p.Schema != nil && p.Schema.Type == huma.TypeArray {
			lists[p.Name] = true
		}
	}
	return lists
}

// neverNull marks everything in a schema as not nullable.
func neverNull(s *huma.Schema) {
	s.Nullable = false
	for _, below := range parts(s) {
		neverNull(below)
	}
}

// reach marks all references of a schema, also indirect ones.
func reach(r huma.Registry, s *huma.Schema, marked map[string]bool) {
	if s.Ref != "" && !marked[s.Ref] {
		marked[s.Ref] = true
		reach(r, r.SchemaFromRef(s.Ref), marked)
	}
	for _, below := range parts(s) {
		reach(r, below, marked)
	}
}

// parts returns the schemas below a schema.
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
