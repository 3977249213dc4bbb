package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/info"
)

// sampleTime is for how long the load of a server is watched.
const sampleTime = time.Second

// usage is what a server has used since its start.
type usage struct {
	at         time.Time
	cpu, stats info.Fields // without fields if refused
	uptime     time.Duration
}

func (s *server) usage(ctx context.Context) usage {
	cpu, _ := s.ask(ctx, s.client.B().Info().Section("cpu").Build()).ToString()
	at := time.Now()
	stats, _ := s.ask(ctx, s.client.B().Info().Section("stats").Build()).ToString()
	return usage{at, info.Parse(cpu), info.Parse(stats), time.Duration(s.info["server"].Int("uptime_in_seconds")) * time.Second}
}

// cpuTime returns the seconds of CPU of the thread that runs commands, or of all threads where the
// server does not tell them apart.
func (u usage) cpuTime() (seconds float64, whose string) {
	if u.cpu["used_cpu_user_main_thread"] != "" {
		return u.cpu.Float("used_cpu_user_main_thread") + u.cpu.Float("used_cpu_sys_main_thread"), "the main thread"
	}
	return u.cpu.Float("used_cpu_user") + u.cpu.Float("used_cpu_sys"), "all threads together"
}

// checkLoad judges the use of the one thread that runs commands.
func checkLoad(before, after usage) Finding {
	elapsed := after.at.Sub(before.at).Seconds()
	if before.cpu["used_cpu_user"] == "" || after.cpu["used_cpu_user"] == "" || elapsed <= 0 {
		return unknown("The server does not report its CPU time: allow INFO, or look at its machine.")
	}
	from, whose := before.cpuTime()
	to, _ := after.cpuTime()
	busy := (to - from) / elapsed
	value := fmt.Sprintf("%s used %.0f%% of a CPU for a second", whose, 100*busy)
	if busy < finding.FullShare {
		return ok(value)
	}
	return warning("thread_busy", value,
		"One thread runs all commands, and calls wait for it: look at connections and slowlog, and INFO commandstats. If all is as it should be, use more servers.")
}

// checkConnections judges how many clients connect, and whether some are rejected.
func checkConnections(before, after usage) Finding {
	const received, rejected = "total_connections_received", "rejected_connections"
	elapsed := after.at.Sub(before.at).Seconds()
	if before.stats[rejected] == "" || after.stats[rejected] == "" || elapsed <= 0 {
		return unknown("The server does not report its connections: allow INFO.")
	}
	rate := float64(after.stats.Int(received)-before.stats.Int(received)) / elapsed
	now, total := after.stats.Int(rejected)-before.stats.Int(rejected), after.stats.Int(rejected)
	value := fmt.Sprintf("%.0f new a second", rate)
	if total == 0 {
		value += ", none rejected"
	} else {
		value += fmt.Sprintf(", %s rejected in the %s since the server started", readable.Number(total), readable.Duration(after.uptime))
	}
	switch {
	case now > 0:
		return warning("rejecting", fmt.Sprintf("%s, %s of them now", value, readable.Number(now)),
			"The server has maxclients connections, and refuses more: find clients that open too many (CLIENT LIST), or raise maxclients.")
	case rate >= finding.ConnectionRate:
		return warning("many_connections", value,
			"Each new connection costs the server more than a command: let programs keep their connections and share them.")
	case total > 0:
		return note("rejected", value,
			"At those times the server had maxclients connections: raise it, or find clients that open too many. CONFIG RESETSTAT counts anew.")
	}
	return ok(value)
}
