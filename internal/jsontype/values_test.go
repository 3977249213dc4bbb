package jsontype_test

import (
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/jsontype"
)

// FuzzParseScore reads any text as a score: it is refused, or a number that has the
// same value when it is written with every digit.
func FuzzParseScore(f *testing.F) {
	for _, s := range []string{"0", "-0", "1e308", "1e309", "-inf", "+Inf", "NaN", "0x1p-2", "1_000", " 1", "1795226395.204911"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		score, err := jsontype.ParseScore(text)
		switch {
		case err != nil && !errors.Is(err, jsontype.ErrScore):
			t.Errorf("ParseScore(%q): %v, want an ErrScore", text, err)
		case err != nil:
		case math.IsNaN(score):
			t.Errorf("ParseScore(%q) is not a number, which Redis refuses", text)
		default:
			again, err := jsontype.ParseScore(strconv.FormatFloat(score, 'g', -1, 64))
			if err != nil || again != score {
				t.Errorf("ParseScore(%q) = %v, and again %v, %v", text, score, again, err)
			}
		}
	})
}

func TestParseScore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0": 0, "-1": -1, "12.5": 12.5, "1e3": 1000, "123456789012345678901234567890": 123456789012345678901234567890,
		"inf": math.Inf(1), "-inf": math.Inf(-1), "+1": 1, "1700000000.123456": 1700000000.123456,
	} {
		if got, err := jsontype.ParseScore(text); err != nil || got != want {
			t.Errorf("ParseScore(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "x", "1/3", "nan", "NaN", "0x10", "1_000", "1e999", " 1", "1,5"} {
		if got, err := jsontype.ParseScore(text); !errors.Is(err, jsontype.ErrScore) {
			t.Errorf("ParseScore(%q) = %v, %v, want ErrScore", text, got, err)
		}
	}
}
