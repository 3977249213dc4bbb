package main

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
)

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_250_000)
	for score, want := range map[jsontype.Score]string{
		1_700_000_000:    "250ms",
		1_700_000_000.25: "0s",
		1_699_999_808:    "3m12s",
		1_699_990_000.25: "2h46m40s",
		1_699_800_000:    "2d8h",
		1_700_000_060.25: "in 1m0s",
		-1e10:            "-",
		1e300:            "-",

		jsontype.Score(math.Inf(1)):  "-",
		jsontype.Score(math.Inf(-1)): "-",
	} {
		if got := age(score, now); got != want {
			t.Errorf("age of %s = %s, want %s", score, got, want)
		}
	}
}
