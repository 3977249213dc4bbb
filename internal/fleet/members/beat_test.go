package members

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestBeatOrder(t *testing.T) {
	t.Parallel()
	ordered := []Beat{{}, {0, 9}, {5, 90}, {5, 91}, {6, 3}}
	for i, older := range ordered {
		if got := ParseBeat(older.String()); got != older {
			t.Errorf("ParseBeat(%q) = %v", older.String(), got)
		}
		for j, newer := range ordered {
			if got := older.Less(newer); got != (i < j) {
				t.Errorf("%v.Less(%v) = %v, want %v", older, newer, got, i < j)
			}
			if got := older.Newer(newer); got != ordered[max(i, j)] {
				t.Errorf("%v.Newer(%v) = %v, want %v", older, newer, got, ordered[max(i, j)])
			}
		}
	}
	for _, tc := range []struct {
		beat, newest Beat
		want         int64
	}{
		{Beat{5, 40}, Beat{5, 90}, 50},
		{Beat{5, 90}, Beat{5, 90}, 0},
		{Beat{5, 95}, Beat{6, 91}, 0}, // it went on counting after it was replaced
		{Beat{}, Beat{5, 90}, 90},
		{Beat{5, 90}, Beat{}, 0},
	} {
		if got := tc.beat.Behind(tc.newest); got != tc.want {
			t.Errorf("%v.Behind(%v) = %d, want %d", tc.beat, tc.newest, got, tc.want)
		}
	}
	for behind, want := range map[int64]string{0: "0 beats, about 0s", 1: "1 beat, about 1s", 50: "50 beats, about 50s", 90: "90 beats, about 1m30s", 90_000: "90000 beats, about 25.0 hours"} {
		if got := Age(behind); got != want {
			t.Errorf("Age(%d) = %q, want %q", behind, got, want)
		}
	}
	for _, text := range []string{"", "x", "1", "1 ", "1 x", " 1"} {
		if got := ParseBeat(text); got != (Beat{}) {
			t.Errorf("ParseBeat(%q) = %v, want the zero Beat", text, got)
		}
	}
}

// TestWriteABeat into the right server, in the right run, and never a lower one; a fenced
// member reports its own.
func TestWriteABeat(t *testing.T) {
	t.Parallel()
	s, ctx := redistest.Start(t, redistest.Options{TCP: true}), t.Context()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Do(ctx, c.B().Set().Key(IdentityKey).Value(Identity("f", 3)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	report, err := Examine(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ write, want Beat }{
		{Beat{5, 7}, Beat{5, 7}}, {Beat{5, 6}, Beat{5, 7}}, {Beat{4, 8}, Beat{5, 8}}, {Beat{1795782728059, 9}, Beat{1795782728059, 9}},
	} {
		if got, err := step.write.Write(ctx, c, "f", 3, report.Run); got != step.want || err != nil {
			t.Errorf("writing %v = %v, %v, want %v", step.write, got, err, step.want)
		}
	}
	for name, err := range map[string]error{
		"another partition": second(Beat{9e12, 99}.Write(ctx, c, "f", 4, report.Run)),
		"another run":       second(Beat{9e12, 99}.Write(ctx, c, "f", 3, "another")),
	} {
		if err == nil {
			t.Errorf("a beat for %s was written, want it refused", name)
		}
	}
	if err := c.Do(ctx, Serve(c.B(), false)).Error(); err != nil {
		t.Fatal(err)
	}
	if got, err := FenceAndExamine(ctx, c); err != nil || got.Beat != (Beat{1795782728059, 9}) {
		t.Errorf("the fenced member says %v, %v, want the last beat", got.Beat, err)
	}
}

func second(_ Beat, err error) error { return err }
