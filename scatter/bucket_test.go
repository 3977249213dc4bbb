package scatter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

func TestBucketKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bucket   Bucket
		from, to time.Time
		want     []string
	}{
		{Bucket{}, noon, noon.Add(time.Minute), []string{"k:1714564800"}},
		{Bucket{}, noon, noon.Add(time.Minute + 1), []string{"k:1714564800", "k:1714564860"}},
		{Bucket{}, noon.Add(-1), noon.Add(1), []string{"k:1714564740", "k:1714564800"}},
		{Bucket{}, noon, noon, nil},
		{Bucket{}, noon, noon.Add(-time.Hour), nil},
		{Bucket{Every: time.Hour}, noon.Add(time.Second), noon.Add(2 * time.Second), []string{"k:1714564800"}},
		{Bucket{Every: 7 * time.Second}, time.Unix(0, 0), time.Unix(15, 0), []string{"k:0", "k:7", "k:14"}},
	} {
		got, err := tt.bucket.Keys("k", tt.from, tt.to)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v from %v to %v (-want +got):\n%s", tt.bucket, tt.from, tt.to, diff)
		}
	}
	_, err := Bucket{Every: time.Second}.Keys("k", noon, noon.Add(maxBuckets*time.Second))
	wantError(t, err, nil)
	_, err = Bucket{Every: time.Second}.Keys("k", noon, noon.Add(maxBuckets*time.Second+1))
	wantError(t, err, millrace.ErrBadArgument)
	_, err = Bucket{}.Keys("k", time.Unix(-61, 0), noon)
	wantError(t, err, millrace.ErrBadArgument)
	_, err = Bucket{Every: 1}.Keys("k", noon, noon)
	wantError(t, err, millrace.ErrBadArgument)
}

// TestBucketsAreFound: the bucket of an event is among those of every stretch of time
// that has the event.
func TestBucketsAreFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(0, rapid.Int64Range(0, 2e18).Draw(t, "at"))
		every := time.Duration(rapid.IntRange(1, 100_000).Draw(t, "every")) * time.Second
		before := time.Duration(rapid.Int64Range(0, int64(20*every)).Draw(t, "before"))
		after := time.Duration(rapid.Int64Range(1, int64(20*every)).Draw(t, "after"))
		if at.Add(-before).Unix() < 0 {
			before = 0
		}
		b, err := Bucket{Every: every, At: at}.checked()
		if err != nil {
			t.Fatal(err)
		}
		keys, err := b.Keys("k", at.Add(-before), at.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		own := "k" + b.interval().suffix
		if n := strings.Count(strings.Join(keys, " ")+" ", own+" "); n != 1 {
			t.Errorf("the bucket %s is %d times in %v", own, n, keys)
		}
	})
}

// TestBucketsExpire: a bucket is by the server's clock or the event's, and is never
// shortened by a session with a shorter Keep.
func TestBucketsExpire(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	ends := func(key string) time.Duration {
		t.Helper()
		left := integer(t, c, "PTTL", key)
		return time.Duration(left) * time.Millisecond
	}
	// around reports a bucket of the server's clock, in which the moment is that is
	// between before and after.
	around := func(key string, every time.Duration, before, after time.Time) string {
		t.Helper()
		keys, err := Bucket{Every: every}.Keys(key, before, after.Add(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if integer(t, c, "EXISTS", key) == 1 {
				return key
			}
		}
		t.Fatalf("there is none of %v", keys)
		return ""
	}

	before := time.Now()
	flush(t, sc, func(s *Session) {
		day := s.In(Bucket{Every: 24 * time.Hour, Keep: time.Hour})
		day.Add("n", 2)
		day.Add("n", 3)
		day.AddFloat("x", 0.5)
		day.Insert("s", "m")
		day.Score("z", "m", 1, Max)
		day.Push("l", 5, []byte("e"))
		s.Add("n", 1)
	})
	after := time.Now()
	for _, key := range []string{"n", "x", "s", "z", "l"} {
		name := around(key, 24*time.Hour, before, after)
		var start int64
		if _, err := fmt.Sscanf(name, key+":%d", &start); err != nil {
			t.Fatal(err)
		}
		want := time.Until(time.Unix(start, 0).Add(25 * time.Hour))
		if got := ends(name); got < want-time.Second || got > want+5*time.Second {
			t.Errorf("%s expires in %v, want %v", name, got, want)
		}
	}
	if got := text(t, c, "GET", around("n", 24*time.Hour, before, after)); got != "5" {
		t.Errorf("sum = %s, want 5", got)
	}
	if got := integer(t, c, "PTTL", "n"); got != -1 {
		t.Errorf("the value without a bucket expires in %d ms", got)
	}

	hour := time.Now().Truncate(time.Hour)
	write := func(keep time.Duration) {
		t.Helper()
		flush(t, sc, func(s *Session) { s.In(Bucket{Every: time.Hour, Keep: keep, At: hour.Add(time.Minute)}).Add("own", 1) })
	}
	name := fmt.Sprint("own:", hour.Unix())
	for _, tt := range []struct{ keep, want time.Duration }{
		{2 * time.Hour, 2 * time.Hour},
		{3 * time.Hour, 3 * time.Hour},
		{time.Hour, 3 * time.Hour}, // never shortened
	} {
		write(tt.keep)
		want := time.Until(hour.Add(time.Hour + tt.want))
		if got := ends(name); got < want-time.Second || got > want+5*time.Second {
			t.Errorf("kept for %v it expires in %v, want %v", tt.keep, got, want)
		}
	}
	must(t, c, "PERSIST", name)
	write(time.Hour)
	if got := integer(t, c, "PTTL", name); got != -1 {
		t.Errorf("a bucket that is kept for good expires in %d ms", got)
	}
	if got := text(t, c, "GET", name); got != "4" {
		t.Errorf("sum = %s, want 4", got)
	}

	// An event that comes when its bucket has expired leaves nothing behind.
	flush(t, sc, func(s *Session) { s.In(Bucket{At: noon}).Add("late", 1) })
	if n := integer(t, c, "EXISTS", fmt.Sprint("late:", noon.Unix())); n != 0 {
		t.Error("a bucket is there that has expired")
	}
}

// TestTwoWaysToOneBucket: an event's own time and the server's clock may mean the same
// key, and a plain name too. Sums are checked over all of them.
func TestTwoWaysToOneBucket(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	c := servers[0].Client(t)
	const big = 9_000_000_000_000_000_000
	century := 100 * 365 * 24 * time.Hour
	name := "n:0"
	three := func(a, b, c int64) error {
		s := sc.Session("x")
		s.In(Bucket{Every: century, At: time.Now()}).Add("n", a)
		s.In(Bucket{Every: century}).Add("n", b)
		s.Add(name, c)
		return s.Flush(t.Context())
	}
	if err := three(1, 2, 3); err != nil {
		t.Fatal(err)
	}
	if got := text(t, c, "GET", name); got != "6" {
		t.Errorf("sum = %s, want 6", got)
	}
	wantError(t, three(big, 1, big), ErrOverflow)
	if got := text(t, c, "GET", name); got != "6" {
		t.Errorf("sum = %s, want 6", got)
	}
	s := sc.Session("x")
	s.Add(name, 1)
	s.In(Bucket{Every: century}).Insert("n", "m")
	wantError(t, s.Flush(t.Context()), ErrType)
}
