package jsontype

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace"
)

// Score is a score: a number with all digits of the server, or "inf" or "-inf", which
// JSON numbers cannot express.
type Score float64

// MarshalJSON writes the value as the contract has it.
func (s Score) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(s), 1):
		return []byte(`"inf"`), nil
	case math.IsInf(float64(s), -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Score) UnmarshalJSON(b []byte) error {
	text := string(b)
	switch text {
	case `"inf"`:
		text = "inf"
	case `"-inf"`:
		text = "-inf"
	}
	score, err := ParseScore(text)
	*s = Score(score)
	return err
}

// ErrScore means that a text is not a score.
var ErrScore = &millrace.Error{
	Code: "bad_score",
	Hint: "Scores are Unix seconds as numbers; inf and -inf are accepted, NaN is not.",
}

// ParseScore parses a decimal number, inf or -inf. The error is derived from [ErrScore].
func ParseScore(text string) (float64, error) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(score) || strings.ContainsAny(text, "xXpP_") {
		return 0, ErrScore.Errorf("not a score: %q", text)
	}
	return score, nil
}

// String returns the score with the same digits.
func (s Score) String() string {
	b, err := s.MarshalJSON()
	if err != nil {
		return strconv.FormatFloat(float64(s), 'g', -1, 64)
	}
	return strings.Trim(string(b), `"`)
}

// Schema describes the value for the OpenAPI value.
func (Score) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Score", &huma.Schema{
		Title:       "Score",
		Description: `A 64-bit float with all its digits, by custom Unix seconds; "inf" and "-inf" are the infinities.`,
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber}, {Type: huma.TypeString, Enum: []any{"inf", "-inf"}}},
		Examples:    []any{1700000003.25},
	})
}

// Duration is a duration in a request: "500ms", "10m". Answers have milliseconds.
type Duration struct{ time.Duration }

// UnmarshalText reads the value from a query or a flag.
func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 500ms or 10m", b)
	}
	d.Duration = parsed
	return nil
}

// Schema describes the value for the OpenAPI value.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:               huma.TypeString,
		Pattern:            `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`,
		PatternDescription: "a duration such as 500ms or 10m",
		Examples:           []any{"30s"},
	}
}

// Time is an instant of a document in UTC, or nil for the zero time.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// shared adds a schema to a registry under its name and returns a reference.
func shared(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	if r.Map()[name] == nil {
		s.PrecomputeMessages()
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}
