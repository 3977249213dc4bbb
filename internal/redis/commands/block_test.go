package commands

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestBlockTime(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(-1)
	for _, tc := range []struct {
		words string
		want  time.Duration
	}{
		// Seconds, at the end.
		{"BLPOP a b 2", 2 * time.Second},
		{"brpop a 0.5", 500 * time.Millisecond},
		{"BRPOPLPUSH a b 1", time.Second},
		{"BLMOVE a b LEFT RIGHT 3", 3 * time.Second},
		{"BLMOVEM a b LEFT RIGHT 3", 3 * time.Second},
		{"BLMOVEM a b LEFT RIGHT 3 COUNT 100 BULK", 3 * time.Second},
		{"BZPOPMIN a 0", forever},
		{"BZPOPMAX a 0.0", forever},
		{"BLPOP a 0.0001", time.Millisecond},
		{"BLPOP a 1e300", math.MaxInt64},

		// Seconds, in front.
		{"BLMPOP 1.5 2 a b LEFT", 1500 * time.Millisecond},
		{"BZMPOP 0 1 a MIN", forever},

		// Milliseconds.
		{"WAIT 1 250", 250 * time.Millisecond},
		{"WAIT 1 0", forever},
		{"WAITAOF 1 2 250", 250 * time.Millisecond},
		{"WAITAOF 1 0 0", forever},
		{"WAIT 1 9223372036854775807", math.MaxInt64},
		{"XREAD BLOCK 100 STREAMS a $", 100 * time.Millisecond},
		{"XREAD COUNT 10 block 0 STREAMS a $", forever},
		{"XREADGROUP GROUP g c COUNT 1 BLOCK 100 NOACK STREAMS a >", 100 * time.Millisecond},
		{"XREADGROUP GROUP BLOCK STREAMS BLOCK 7 STREAMS a >", 7 * time.Millisecond},

		// Those that do not wait.
		{"GET k", 0},
		{"", 0},
		{"BLPOP", 0},
		{"BLMOVEM a b LEFT RIGHT", 0},
		{"LMPOP 1 a LEFT", 0},
		{"XREAD STREAMS a $", 0},
		{"XREAD STREAMS BLOCK 0", 0},
		{"XREADGROUP GROUP BLOCK 100 STREAMS a >", 0},
		{"XREAD COUNT 1 BLOCK", 0},

		// Those that the server refuses.
		{"BLPOP a -1", 0},
		{"BLPOP a -0.0001", 0},
		{"BLPOP a soon", 0},
		{"BLPOP a inf", 0},
		{"BLPOP a nan", 0},
		{"WAIT 1 0.5", 0},
		{"WAIT 1 -1", 0},
		{"XREAD BLOCK -1 STREAMS a $", 0},
		{"XREAD BLOCK 99999999999999999999 STREAMS a $", 0},
	} {
		got, endless := BlockTime(strings.Fields(tc.words))
		if endless && got == 0 {
			got = forever
		}
		if got != tc.want {
			t.Errorf("BlockTime(%q) = %v, want %v", tc.words, got, tc.want)
		}
	}
}

// TestBlockTimeCovers asks the server which of its commands wait.
func TestBlockTimeCovers(t *testing.T) {
	t.Parallel()
	waiting := map[string]string{
		"BLMOVE": "BLMOVE a b LEFT RIGHT 1", "BLMOVEM": "BLMOVEM a b LEFT RIGHT 1", "BLMPOP": "BLMPOP 1 1 a LEFT", "BLPOP": "BLPOP a 1", "BRPOP": "BRPOP a 1",
		"BRPOPLPUSH": "BRPOPLPUSH a b 1", "BZMPOP": "BZMPOP 1 1 a MIN", "BZPOPMAX": "BZPOPMAX a 1", "BZPOPMIN": "BZPOPMIN a 1",
		"WAIT": "WAIT 1 1000", "WAITAOF": "WAITAOF 1 1 1000", "XREAD": "XREAD BLOCK 1000 STREAMS a $", "XREADGROUP": "XREADGROUP GROUP g c BLOCK 1000 STREAMS a >",
	}
	for name, words := range waiting {
		if d, _ := BlockTime(strings.Fields(words)); d != time.Second {
			t.Errorf("BlockTime(%q) = %v, want 1s, for %s", words, d, name)
		}
	}
	client := redistest.Shared(t).Client(t)
	blocking, err := client.Do(t.Context(), client.B().AclCat().Categoryname("blocking").Build()).AsStrSlice()
	if err != nil || len(blocking) == 0 {
		t.Fatalf("ACL CAT blocking = %q, %v", blocking, err)
	}
	for _, name := range blocking {
		if name := strings.ToUpper(name); waiting[name] == "" {
			t.Errorf("%s waits on this server, and is not known to BlockTime", name)
		}
	}
}

func BenchmarkBlockTime(b *testing.B) {
	for _, line := range []string{
		"GET {tag}:key 1",
		"EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff831 1 {tag}:key 1 2 3",
		"BLPOP {tag}:key 0.5",
		"XREADGROUP GROUP g c COUNT 10 BLOCK 1000 STREAMS {tag}:key >",
	} {
		words := strings.Fields(line)
		b.Run(words[0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				BlockTime(words)
			}
		})
	}
}
