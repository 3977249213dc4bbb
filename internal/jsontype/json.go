package jsontype

import (
	"bytes"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// JSON is any value, as it was written but for its blanks. Nil is none.
type JSON []byte

// MarshalJSON writes the value.
func (j JSON) MarshalJSON() ([]byte, error) { return j, nil }

// UnmarshalJSON takes the value.
func (j *JSON) UnmarshalJSON(b []byte) error {
	var compact bytes.Buffer
	err := json.Compact(&compact, b)
	*j = compact.Bytes()
	return err
}

// Any is the extension by which a schema says that it takes any value, null and unknown names too.
const Any = "x-any"

// Schema describes the value for the OpenAPI document.
func (JSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Extensions: map[string]any{Any: true}}
}
