package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/millrace/millrace/server/internal/api"
)

// spec is the description of an API, and the operations that the tests have seen.
type spec struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	paths    []pathPattern

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	seen    map[string]bool // operations, as "POST /v1/..."
}

type pathPattern struct {
	path    string
	pattern *regexp.Regexp
}

// where the description is, for the compiler of its schemas.
const specURL = "http://localhost/openapi.json"

// readSpec reads the description that a service gives of itself. Objects that may
// have more fields some day have none today.
func readSpec(t testing.TB, handler http.Handler) *spec {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil))
	value, err := jsonschema.UnmarshalJSON(w.Body)
	if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("/openapi.json: %d, %v", w.Code, err)
	}
	s := &spec{doc: value.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema), seen: make(map[string]bool)}
	for _, schema := range s.at("components", "schemas").(map[string]any) {
		schema := schema.(map[string]any)
		if _, open := schema["additionalProperties"]; !open && schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := s.compiler.AddResource(specURL, s.doc); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\\\{[^}]+\\\}`)
	for path := range s.at("paths").(map[string]any) {
		s.paths = append(s.paths, pathPattern{path, regexp.MustCompile("^" + name.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")})
	}
	// Concrete paths match before those with more parameters, as OpenAPI wants it.
	slices.SortFunc(s.paths, func(a, b pathPattern) int { return strings.Count(a.path, "{") - strings.Count(b.path, "{") })
	return s
}

// at returns the value at a place in the description.
func (s *spec) at(place ...string) any {
	var v any = s.doc
	for _, part := range place {
		v = v.(map[string]any)[part]
	}
	return v
}

// check fails the test unless request and answer are as the description says.
func (s *spec) check(a answer, r *http.Request, sent []byte) {
	a.t.Helper()
	kind := a.header.Get("Content-Type")
	if want := map[bool]string{true: "application/json", false: "application/problem+json"}[a.status < 400]; kind != want {
		a.t.Errorf("%s: %d as %q, want %q", a.what, a.status, kind, want)
	}
	op, path := s.operation(r)
	if op == nil { // nothing that is described
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed && a.status != http.StatusBadRequest && r.URL.Path != "/openapi.json" {
			a.t.Errorf("%s: %d, and nothing describes it", a.what, a.status)
		}
		if a.status >= 400 {
			s.validate(a, a.body, "components", "schemas", "Problem")
		}
		return
	}
	method := strings.ToLower(strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))
	s.mu.Lock()
	s.seen[r.Method+" "+path] = true
	s.mu.Unlock()
	if len(sent) > 0 && a.status < 400 {
		s.validate(a, sent, "paths", path, method, "requestBody", "content", "application/json", "schema")
	}
	status := strconv.Itoa(a.status)
	response, ok := op["responses"].(map[string]any)[status].(map[string]any)
	if !ok {
		a.t.Errorf("%s: %d %s, a status that nothing describes", a.what, a.status, bytes.TrimSpace(a.body))
		return
	}
	if ref, ok := response["$ref"].(string); ok {
		s.validate(a, a.body, "components", "responses", strings.TrimPrefix(ref, "#/components/responses/"), "content", kind, "schema")
		return
	}
	s.validate(a, a.body, "paths", path, method, "responses", status, "content", kind, "schema")
}

// operation returns the description of a request's operation, and its path there.
func (s *spec) operation(r *http.Request) (op map[string]any, path string) {
	if r.Method == http.MethodHead {
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
	}
	for _, p := range s.paths {
		if p.pattern.MatchString(r.URL.EscapedPath()) && r.Method == strings.ToUpper(r.Method) {
			op, _ := s.at("paths", p.path, strings.ToLower(r.Method)).(map[string]any)
			return op, p.path
		}
	}
	return nil, ""
}

// validate fails the test unless a document matches its schema.
func (s *spec) validate(a answer, doc []byte, place ...string) {
	a.t.Helper()
	var pointer strings.Builder
	for _, part := range place {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	schema, ok := s.schemas[pointer.String()]
	if !ok {
		var err error
		if schema, err = s.compiler.Compile(specURL + "#" + pointer.String()); err != nil {
			a.t.Fatalf("schema %s: %v", pointer.String(), err)
		}
		s.schemas[pointer.String()] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		a.t.Errorf("%s: %d %s is not as described: %v", a.what, a.status, bytes.TrimSpace(doc), err)
	}
}

// operations returns all operations that are described.
func (s *spec) operations() []string {
	var all []string
	for path, item := range s.at("paths").(map[string]any) {
		for method := range item.(map[string]any) {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	return all
}

func TestDescription(t *testing.T) {
	t.Parallel()
	service := serve(t, api.Config{Prefix: "/mill"})
	var raw struct {
		Components struct {
			Schemas map[string]struct {
				AdditionalProperties *bool `json:"additionalProperties"`
			}
		}
	}
	if err := json.Unmarshal(service.ask("GET", "/openapi.json", nil).body, &raw); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]bool{"Messages": true, "Problem": true, "QueueStats": true, "Write": false, "Draft": false, "Entry": false} {
		if more := raw.Components.Schemas[name].AdditionalProperties; (more == nil) != open {
			t.Errorf("the schema %s may have other fields: %v, want that to be %v", name, more == nil, open)
		}
	}
	s := service.spec
	if got := s.at("openapi"); got != "3.1.0" {
		t.Errorf("openapi %v, want 3.1.0", got)
	}
	if got, _ := json.Marshal(s.at("servers")); string(got) != `[{"url":"/mill"}]` {
		t.Errorf("servers %s, want the prefix", got)
	}
	if s.at("components", "securitySchemes", "bearer") == nil || s.at("components", "securitySchemes", "basic") == nil {
		t.Error("the security schemes are not there")
	}
	schemas := s.at("components", "schemas").(map[string]any)
	for _, foreign := range []string{"ErrorModel", "ErrorDetail"} {
		if schemas[foreign] != nil {
			t.Errorf("there is a schema %s, which nothing answers with", foreign)
		}
	}
	text, err := json.Marshal(s.doc)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(`"null"`)) {
		t.Error("something may be null")
	}
	ids := make(map[any]bool)
	for _, item := range s.at("paths").(map[string]any) {
		for method, op := range item.(map[string]any) {
			op := op.(map[string]any)
			if id := op["operationId"]; ids[id] || id == nil {
				t.Errorf("two operations have the id %v", id)
			} else {
				ids[id] = true
			}
			if op["summary"] == "" || op["description"] == "" {
				t.Errorf("%v has no summary or no description", op["operationId"])
			}
			keyed := false
			for _, p := range list(op["parameters"]) {
				p := p.(map[string]any)
				keyed = keyed || p["$ref"] == "#/components/parameters/Idempotency-Key"
			}
			if keyed != (method != "get") {
				t.Errorf("%v takes an Idempotency-Key: %v", op["operationId"], keyed)
			}
		}
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
