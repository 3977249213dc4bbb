package document

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace"
)

// Score is a score: a number with every digit that the server holds, or "inf" or
// "-inf", for which JSON has no number.
type Score float64

// MarshalJSON writes a value of a document.
func (s Score) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(s), 1):
		return []byte(`"inf"`), nil
	case math.IsInf(float64(s), -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads a value of a document.
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

// String returns the score as people are shown it: with the same digits.
func (s Score) String() string {
	b, err := s.MarshalJSON()
	if err != nil {
		return strconv.FormatFloat(float64(s), 'g', -1, 64)
	}
	return strings.Trim(string(b), `"`)
}

// Schema tells what a score looks like.
func (Score) Schema(r huma.Registry) *huma.Schema {
	return shared(r, "Score", &huma.Schema{
		Title:       "Score",
		Description: `A 64-bit float with all its digits, by custom Unix seconds; "inf" and "-inf" are the infinities.`,
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber}, {Type: huma.TypeString, Enum: []any{"inf", "-inf"}}},
		Examples:    []any{1700000003.25},
	})
}
