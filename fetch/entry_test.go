package fetch

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEntryIsStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.Map(rapid.Int64Range(0, 1e12), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond })
		want := entry{
			kind: rapid.SampledFrom([]kind{valueKind, noneKind, failedKind}).Draw(t, "kind"),
			cost: millis.Draw(t, "cost"), retry: millis.Draw(t, "retry"), ttl: millis.Draw(t, "ttl"), stale: millis.Draw(t, "stale"),
			payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"), left: millis.Draw(t, "left"),
		}
		got, err := unseal(want.seal(), want.left)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); err != nil || diff != "" {
			t.Errorf("unseal: %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestEntryLayout(t *testing.T) {
	t.Parallel()
	e := entry{kind: valueKind, payload: []byte(`{"a":1}`), ttl: 5 * time.Minute, stale: time.Minute, cost: 120 * time.Millisecond, retry: time.Second}
	if got, want := string(e.seal()), "2 value 300000 60000 120 1000\n{\"a\":1}"; got != want {
		t.Errorf("seal = %q, want %q", got, want)
	}
	for _, stored := range []string{
		"", "\n", "1 value 1 1\n", "3 value 1 1 1 1\n", "2 other 1 1 1 1\n", "2 value 1 1 1\n", "2 value x 1 1 1\n", "2 value 1 1 1 x\n", `{"a":1}`,
	} {
		if e, err := unseal([]byte(stored), time.Second); err == nil {
			t.Errorf("unseal(%q) = %+v, want an error", stored, e)
		}
	}
}

type page struct {
	Title string
	Tags  map[string]int
}

// TestTypes: a fetched value is the same whether it was computed or stored.
func TestTypes(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Jitter: -1})
	roundTrip(t, c, "string", "as\x00it\xffis")
	roundTrip(t, c, "bytes", []byte{0, 255, 'x'})
	roundTrip(t, c, "empty", "")
	roundTrip(t, c, "no bytes", []byte{})
	roundTrip(t, c, "int", math.MaxInt64)
	roundTrip(t, c, "struct", page{Title: "T", Tags: map[string]int{"a": 1}})
	roundTrip(t, c, "pointer", &page{Title: "T"})
	roundTrip(t, c, "nil", (*page)(nil))
	roundTrip(t, c, "slice", []string{"a", "b"})
	stored, _, err := c.keys.Get(t.Context(), "string")
	head, text, _ := strings.Cut(string(stored), "\n")
	if words := strings.Fields(head); len(words) == 6 {
		words[4] = "COST" // how long the load took
		head = strings.Join(words, " ")
	}
	if err != nil || head != "2 value 300000 0 COST 0" || text != "as\x00it\xffis" {
		t.Errorf("stored = %q, %v, want the string as it is", stored, err)
	}
}

func roundTrip[T any](t *testing.T, c *Cache, key string, value T) {
	t.Helper()
	for _, outcome := range []Outcome{Miss, Hit} {
		got, r, err := Get(t.Context(), c, key, func(context.Context) (T, error) { return value, nil })
		if diff := cmp.Diff(value, got); diff != "" || err != nil || r.Outcome != outcome {
			t.Errorf("Get of %s = %v, %v, want %v (-want +got):\n%s", key, r.Outcome, err, outcome, diff)
		}
	}
}

// TestNothingIsShared: a caller may change the value that it got.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	own := map[string]int{"a": 1}
	for range 3 {
		got, _, err := Get(t.Context(), c, "k", func(context.Context) (map[string]int, error) { return own, nil })
		if diff := cmp.Diff(map[string]int{"a": 1}, got); diff != "" || err != nil {
			t.Errorf("Get: %v (-want +got):\n%s", err, diff)
		}
		got["a"]++
	}
}

// TestUnreadable: a value that a program cannot read is computed again.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	want(t, c, "k", &source{value: "no JSON"}, "no JSON", Miss, nil)
	roundTrip(t, c, "k", page{Title: "T"})
	if _, err := c.keys.Set(t.Context(), "raw", []byte("what is this"), time.Minute, setAny); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c, "raw", 7)
}

func TestCannotBeEncoded(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Errors: -1})
	if _, _, err := Get(t.Context(), c, "k", func(context.Context) (float64, error) { return math.NaN(), nil }); !errors.Is(err, ErrEncoding) {
		t.Errorf("Get of NaN = %v, want ErrEncoding", err)
	}
	s, release := blocked(t, "no JSON")
	first := start(t.Context(), c, "k", s)
	<-s.begun
	second := make(chan error, 1)
	go func() {
		_, _, err := Get(t.Context(), c, "k", func(context.Context) (page, error) { return page{}, nil })
		second <- err
	}()
	awaitCallers(t, c, 2)
	release()
	wantFrom(t, first, "no JSON", Miss, nil)
	if err := <-second; !errors.Is(err, ErrEncoding) {
		t.Errorf("Get of another type at the same time = %v, want ErrEncoding", err)
	}
}
