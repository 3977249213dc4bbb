package document

import (
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Duration is how long something is to take, as a command line has it: "500ms",
// "10m". It is only given, never told.
type Duration struct{ time.Duration }

// UnmarshalText reads a value of a document or of a query.
func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%.40q is no duration such as 500ms or 10m", b)
	}
	d.Duration = parsed
	return nil
}

// Schema tells what a duration looks like.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:               huma.TypeString,
		Pattern:            `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`,
		PatternDescription: "a duration such as 500ms or 10m",
		Examples:           []any{"30s"},
	}
}
