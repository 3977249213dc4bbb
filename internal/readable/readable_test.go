package readable_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/readable"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -123: "-123"} {
		if got := readable.Number(n); got != want {
			t.Errorf("Number(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 marks", 1: "1 mark", 2: "2 marks", 12345: "12,345 marks"} {
		if got := readable.Count(n, "mark"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 kB", 1572864: "1.5 MB", 15 << 30: "15 GB", 5 << 40: "5 TB", 7 << 50: "7 PB",
	} {
		if got := readable.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                    "0s",
		120*time.Millisecond + 400:           "120ms",
		3*time.Minute + 12*time.Second + 5e8: "3m13s",
		23*time.Hour + 59*time.Minute:        "23h59m0s",
		53*time.Hour + 29*time.Minute:        "2d5h",
		100 * 24 * time.Hour:                 "100d0h",
	} {
		if got := readable.Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	got := readable.Counters(struct {
		Read    int64 `json:"read" doc:"Messages read."`
		Written int64 `json:"written" doc:"Messages written."`
	}{3, 4})
	want := []readable.Counter{{Name: "read", Doc: "Messages read.", N: 3}, {Name: "written", Doc: "Messages written.", N: 4}}
	if !slices.Equal(got, want) {
		t.Errorf("Counters = %v, want %v", got, want)
	}
}
