package screen

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(second int) Frame {
	return Frame{
		Title: "first", Done: time.Duration(second) * time.Second, Whole: 10 * time.Second,
		Lanes: []Lane{{"fast", second, 10, "no wait"}, {"slow", 0, 0, ""}},
		Rows:  [][]string{{fmt.Sprintf("%d things", second), "50% good"}, {"3 waiting"}},
	}
}

func TestProgressIsRedrawnOnATerminal(t *testing.T) {
	t.Parallel()
	bar := func(filled int) string { return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled) }
	lane := func(filled int) string {
		return "\r\x1b[K  fast            " + strings.Repeat("▓", filled) + strings.Repeat("░", barWidth-filled) + "  no wait\n" +
			"\r\x1b[K  slow            " + bar(0) + "  \n"
	}
	want := "\r\x1b[K  first  " + bar(6) + "  2.0 s of 10.0 s\n" + lane(6) +
		"\r\x1b[K  2 things                50% good\n" +
		"\r\x1b[K  3 waiting\n" +
		"\x1b[5A" +
		"\r\x1b[K  first  " + bar(30) + "  10.0 s of 10.0 s\n" + lane(30) +
		"\r\x1b[K  10 things               50% good\n" +
		"\r\x1b[K  3 waiting\n" +
		"\x1b[5A\r\x1b[J" +
		"done\n"
	var got strings.Builder
	s := New(&got, true)
	s.Begin()
	s.Show(at(2))
	s.Show(at(10))
	s.Say("done")
	s.Wipe()
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

func TestProgressIsALineNowAndThenElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		s := New(&got, false)
		s.Begin()
		for second := range 6 {
			s.Show(at(second))
			time.Sleep(time.Second)
		}
		want := "  2.0 s of 10.0 s: 2 things, 50% good, 3 waiting\n" +
			"  4.0 s of 10.0 s: 4 things, 50% good, 3 waiting\n"
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
}
