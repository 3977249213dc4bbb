package jsontype

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Rate is deliveries per second. Requests may say 5/s, 100/m or 10/h; a number is per second.
type Rate float64

// UnmarshalText reads the value from a flag, a query or a string.
func (r *Rate) UnmarshalText(b []byte) error {
	text, per := string(b), 1.0
	if number, unit, found := strings.Cut(text, "/"); found {
		seconds, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
		if !ok {
			return fmt.Errorf("%.40q is not a rate such as 5/s, 100/m or 10/h", b)
		}
		text, per = number, seconds
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 1) {
		return fmt.Errorf("%.40q is not a rate such as 5/s, 100/m or 10/h", b)
	}
	*r = Rate(n / per)
	return nil
}

// UnmarshalJSON reads a number or a string.
func (r *Rate) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		return r.UnmarshalText([]byte(text))
	}
	return r.UnmarshalText(b)
}

// String writes the rate in the first unit in which it is a whole number.
func (r Rate) String() string {
	rate, unit := float64(r), "s"
	for _, larger := range []string{"m", "h"} {
		if math.Abs(rate-math.Round(rate)) > 1e-6*rate {
			rate, unit = rate*60, larger
		}
	}
	return fmt.Sprintf("%.6g/%s", rate, unit)
}

// Schema describes the value for the OpenAPI value.
func (Rate) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Rate", &huma.Schema{
		Description: "Deliveries per second, as a number, or a string such as 5/s, 100/m or 10/h. Answers have numbers.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeNumber, Minimum: new(0.0)},
			{Type: huma.TypeString, Pattern: `^[0-9]+(\.[0-9]+)?(/[smh])?$`},
		},
		Examples: []any{5},
	})
}
