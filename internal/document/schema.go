package document

import "github.com/danielgtaylor/huma/v2"

// shared puts a schema into a registry under its name, and returns a reference to
// it.
func shared(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	if r.Map()[name] == nil {
		s.PrecomputeMessages()
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}
