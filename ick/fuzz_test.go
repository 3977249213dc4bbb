package ick_test

import (
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/millrace/millrace/ick"
)

// FuzzParseScore reads any text as a score: it is refused, or a number that has the
// same value when it is written with every digit.
func FuzzParseScore(f *testing.F) {
	for _, s := range []string{"0", "-0", "1e308", "1e309", "-inf", "+Inf", "NaN", "0x1p-2", "1_000", " 1", "1795226395.204911"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		score, err := ick.ParseScore(text)
		switch {
		case err != nil && !errors.Is(err, ick.ErrScore):
			t.Errorf("ParseScore(%q): %v, want an ErrScore", text, err)
		case err != nil:
		case math.IsNaN(score):
			t.Errorf("ParseScore(%q) is not a number, which Redis refuses", text)
		default:
			again, err := ick.ParseScore(strconv.FormatFloat(score, 'g', -1, 64))
			if err != nil || again != score {
				t.Errorf("ParseScore(%q) = %v, and again %v, %v", text, score, again, err)
			}
		}
	})
}
