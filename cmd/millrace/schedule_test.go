package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want(`{"schedules":[]}`+"\n", "schedule", "ls", "--queue", name, "--json")
	s.refused(1, "not_found", "schedule", "show", name, "daily")
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("\xff from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	daily := answer[ops.Schedule](s, "schedule", "set", name, "daily", "--cron", "0 3 * * 1-5", "--zone", "Europe/Berlin", "--tenant", "acme",
		"--file", file, "--header", "kind=report", "--jitter", "30s", "--missed", "skip", "--priority", "2", "--cost", "350", "--deadline", "1h")
	if daily.Words != "at 03:00, Monday to Friday" || daily.Zone != "Europe/Berlin" || daily.Next == nil || time.Until(*daily.Next) > 4*24*time.Hour ||
		daily.Body != "\xff from a file" || daily.Headers["kind"] != "report" || daily.Jitter != 30_000 || daily.Missed != "skip" || daily.Priority != 2 || daily.Cost != 350 || daily.Deadline != 3600_000 {
		t.Errorf("set = %+v", daily)
	}
	if got := s.feed("from stdin", "schedule", "set", name, "poll", "--every", "15m", "--tenant", "acme", "--file", "-"); got.code != 0 || !strings.HasPrefix(got.stdout, "poll: every 15m, next ") {
		t.Errorf("set = %+v", got)
	}
	if got := answer[ops.Schedule](s, "schedule", "show", name, "poll"); got.Body != "from stdin" || got.Zone != "" || got.Words != "every 15m" || got.Missed != "once" {
		t.Errorf("show = %+v", got)
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--queue", name}} {
		var names []string
		for _, one := range answer[ops.Schedules](s, append([]string{"schedule"}, args...)...).Schedules {
			if string(one.Queue) == name {
				names = append(names, string(one.Name))
			}
		}
		if strings.Join(names, " ") != "daily poll" {
			t.Errorf("%v lists %v, want both schedules by name", args, names)
		}
	}

	if got := answer[ops.Schedule](s, "schedule", "pause", name, "poll"); !got.Paused || got.Next != nil {
		t.Errorf("paused = %+v", got)
	}
	if got := s.run("schedule", "ls", "--queue", name).stdout; !strings.Contains(got, "paused") || !strings.Contains(got, "Monday to Friday") {
		t.Errorf("the table is\n%s", got)
	}
	if got := s.run("schedule", "next", name, "poll", "--max", "2").stdout; !strings.Contains(got, "it is paused") {
		t.Errorf("next of a paused schedule is\n%s", got)
	}
	ran := answer[ops.RanSchedule](s, "schedule", "run", name, "poll").ID
	if m := s.takeOne(name); m.ID != ran || string(m.Body) != `"from stdin"` {
		t.Errorf("read %+v, want the message of the run", m)
	}
	if got := answer[ops.Schedule](s, "schedule", "resume", name, "poll"); got.Paused || got.Next == nil {
		t.Errorf("resumed = %+v", got)
	}
	next := answer[ops.Ticks](s, "schedule", "next", name, "daily", "--max", "3").Ticks
	if len(next) != 3 || !next[0].At.Equal(*daily.Next) {
		t.Errorf("next = %+v, want 3 from %s on", next, daily.Next)
	}
	shown := s.run("schedule", "show", name, "daily").stdout
	for _, part := range []string{"at 03:00, Monday to Friday (Europe/Berlin)", "of those that are missed it writes: none", "kind=report", "up to 30s after"} {
		if !strings.Contains(shown, part) {
			t.Errorf("show prints\n%s without %q", shown, part)
		}
	}

	s.refused(1, "declined", "schedule", "rm", name, "poll")
	if got := s.feed("n\n", "schedule", "rm", name, "poll"); got.code != 1 || !strings.Contains(got.stderr, "which ticks every 15m?") {
		t.Errorf("declined = %+v", got)
	}
	if got := s.feed("y\n", "schedule", "rm", name, "poll"); got.code != 0 || got.stdout != "removed\n" {
		t.Errorf("removed = %+v", got)
	}
	s.refused(1, "not_found", "schedule", "rm", name, "poll", "--yes")
	for _, verb := range []string{"pause", "resume", "run", "next"} {
		s.refused(1, "not_found", "schedule", verb, name, "poll")
	}
}

func TestScheduleIsRefused(t *testing.T) {
	t.Parallel()
	s := shell{t: t} // without a server: nothing asks it
	set := []string{"schedule", "set", "q", "n", "--tenant", "a"}
	for _, test := range []struct {
		code, part string
		args       []string
	}{
		{"bad_argument", "needs an interval or a cron", set},
		{"bad_argument", "not both", append(set, "--every", "1h", "--cron", "* * * * *")},
		{"bad_argument", "no time zone", append(set, "--every", "1h", "--zone", "UTC")},
		{"bad_argument", "minute", append(set, "--cron", "60 * * * *")},
		{"bad_argument", "Mars/Phobos", append(set, "--cron", "0 * * * *", "--zone", "Mars/Phobos")},
		{"bad_argument", "a priority is", append(set, "--every", "1h", "--priority", "5")},
		{"bad_usage", "a header is", append(set, "--every", "1h", "--header", "x")},
		{"bad_usage", "by --body and by --file", append(set, "--every", "1h", "--body", "x", "--file", "-")},
		{"bad_usage", "cannot be read", append(set, "--every", "1h", "--file", "/no/such/file")},
		{"bad_usage", "--tenant", []string{"schedule", "set", "q", "n", "--every", "1h"}},
		{"bad_usage", "--missed", append(set, "--every", "1h", "--missed", "some")},
		{"bad_usage", "of which schedule", []string{"schedule", "next"}},
		{"bad_usage", "of which schedule", []string{"schedule", "next", "q"}},
		{"bad_usage", "not both", []string{"schedule", "next", "q", "n", "--every", "1h"}},
		{"bad_usage", "1 to 1000", []string{"schedule", "next", "--every", "1h", "--max", "0"}},
	} {
		if got := s.refused(2, test.code, test.args...); !strings.Contains(got.Error, test.part) {
			t.Errorf("%v: %q, want to read %q", test.args, got.Error, test.part)
		}
	}
}

// TestScheduleNextMarksChanges: the run at which daylight saving begins is marked.
func TestScheduleNextMarksChanges(t *testing.T) {
	t.Parallel()
	s := shell{t: t}
	got := s.run("schedule", "next", "--cron", "0 12 * * *", "--zone", "Europe/Berlin", "--max", "400")
	if n := strings.Count(got.stdout, "the offset is +02:00 from here on"); got.code != 0 || n != 1 && n != 2 {
		t.Errorf("%d marks in\n%s", n, got.stdout)
	}
	if got := s.run("schedule", "next", "--every", "36h", "--max", "2"); strings.Count(got.stdout, "\n") != 5 || !strings.HasPrefix(got.stdout, "every 36h\n\nUTC\n") {
		t.Errorf("next of an interval prints\n%s", got.stdout)
	}
}
