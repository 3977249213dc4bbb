package plan_test

import (
	"testing"

	"github.com/millrace/millrace/internal/fleet/plan"
)

func TestParseBytes(t *testing.T) {
	t.Parallel()
	tests := map[string]int64{
		"0": 0, "1024": 1024, "17b": 17, "17B": 17,
		"1k": 1000, "1kb": 1024, "1K": 1000, "1Kb": 1024,
		"2m": 2e6, "512mb": 512 << 20, "1g": 1e9, "96gb": 96 << 30, "96GB": 96 << 30,
		"9223372036854775807": 1<<63 - 1, "8589934591gb": 8589934591 << 30,
	}
	for text, want := range tests {
		if got, err := plan.ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseBytesRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "gb", "-1", "+1", "1.5gb", "96 gb", " 96gb", "96tb", "1bb", "1kk", "1bk", "1_000", "0x10", "Ⱥ", "1Ⱥ",
		"9223372036854775808", "8589934592gb", "18446744073709551616",
	} {
		_, err := plan.ParseBytes(text)
		checkRefusal(t, err, `invalid amount of memory: "`+text+`"`)
	}
}
