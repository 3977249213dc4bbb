package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// maxSlow is how many entries of the slow log are read, the newest.
	maxSlow = 1000

	// maxSlowShown is how many commands a finding names, the slowest.
	maxSlowShown = 3
)

// slowCommand is an entry of the slow log, without arguments: they are the data of programs.
type slowCommand struct {
	name string
	at   time.Time
	took time.Duration
}

func checkSlowLog(ctx context.Context, s *server) Finding {
	entries, err := s.ask(ctx, s.client.B().SlowlogGet().Count(maxSlow).Build()).ToArray()
	if retry.Denied(err) {
		return note(finding.Refused, "this user may not read the slow log",
			"It shows the arguments of all programs. Read it as another user: millrace doctor, or redis-cli SLOWLOG GET.")
	}
	if err != nil {
		return unknown("The server does not report its slow commands: look at its latency elsewhere.")
	}
	now := time.Now()
	if parts, err := s.ask(ctx, s.client.B().Time().Build()).AsIntSlice(); err == nil && len(parts) == 2 {
		now = time.Unix(parts[0], 0)
	}
	return judgeSlow(readSlow(entries), now)
}

// readSlow reads the reply of SLOWLOG GET. It leaves out entries of another form.
func readSlow(entries []rueidis.RedisMessage) (all []slowCommand) {
	for _, entry := range entries {
		fields, _ := entry.ToArray() // id, time, microseconds, arguments, and more
		if len(fields) < 4 {
			continue
		}
		at, _ := fields[1].AsInt64()
		took, _ := fields[2].AsInt64()
		args, _ := fields[3].AsStrSlice()
		if len(args) > 0 {
			all = append(all, slowCommand{strings.ToUpper(args[0]), time.Unix(at, 0), time.Duration(took) * time.Microsecond})
		}
	}
	return all
}

// judgeSlow names the slowest commands of the last hour.
func judgeSlow(all []slowCommand, now time.Time) Finding {
	recent := slices.DeleteFunc(all, func(c slowCommand) bool { return now.Sub(c.at) > finding.SlowLogAge })
	if len(recent) == 0 {
		return ok("none in the last hour")
	}
	slices.SortStableFunc(recent, func(a, b slowCommand) int { return cmp.Compare(b.took, a.took) })
	times, names := map[string]int{}, []string(nil)
	var worst []string
	for _, c := range recent {
		if times[c.name]++; times[c.name] == 1 {
			names = append(names, c.name)
			worst = append(worst, "up to "+readable.Duration(c.took))
		}
	}
	var parts []string
	for i, name := range names[:min(len(names), maxSlowShown)] {
		parts = append(parts, fmt.Sprintf("%s %s, %s", readable.Name(name), readable.Count(times[name], "time"), worst[i]))
	}
	if more := len(names) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	value := "in the last hour: " + strings.Join(parts, "; ")
	const advice = "All other commands waited meanwhile: redis-cli SLOWLOG GET shows their arguments and clients."
	if recent[0].took >= finding.SlowCommand {
		return warning("slow", value, advice)
	}
	return note("slow", value, advice)
}
