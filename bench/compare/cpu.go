package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// meter has the resources that a site had used at a moment.
type meter struct {
	at       time.Time
	messages int           // that were handled
	server   time.Duration // CPU time of Redis
	workers  time.Duration // CPU time of the workers; 0 where /proc does not tell
	file     float64       // bytes of Redis's append-only file; 0 without one
}

func (s *site) meter(ctx context.Context) (m meter, err error) {
	fields, err := s.info(ctx, "cpu")
	if err != nil {
		return m, err
	}
	m.server = time.Duration((fields.Float("used_cpu_user") + fields.Float("used_cpu_sys")) * float64(time.Second))
	if fields, err = s.info(ctx, "persistence"); err != nil {
		return m, err
	}
	m.file = fields.Float("aof_current_size")
	for _, w := range s.workers {
		m.workers += processTime(w.PID())
	}
	m.at = time.Now()
	m.messages, err = count(s.handled())
	return m, err
}

// since returns the cost of a message since an earlier moment.
func (m meter) since(before meter) figures {
	n := float64(m.messages - before.messages)
	f := figures{
		"server_us": microseconds(m.server-before.server) / n,
		"per_s":     n / m.at.Sub(before.at).Seconds(),
	}
	if m.workers > 0 {
		f["workers_us"] = microseconds(m.workers-before.workers) / n
	}
	if m.file > before.file {
		f["file_bytes"] = (m.file - before.file) / n
	}
	return f
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ticksPerSecond is the unit of times in /proc, on all platforms of Linux.
const ticksPerSecond = 100

// processTime returns the CPU time of a process, or 0 where there is no /proc.
func processTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return statTime(string(text))
}

// statTime returns the CPU time in a stat of /proc. The second field is the name of the program in
// parentheses, which may contain anything.
func statTime(stat string) time.Duration {
	const user, system = 14 - 3, 15 - 3 // the fields 14 and 15, of those from the third on
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0
	}
	ticks := 0
	for _, field := range fields[user : system+1] {
		n, _ := strconv.Atoi(field) // Linux writes numbers there
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
