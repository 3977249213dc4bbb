package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// callgrindOut is the beginning of the names of files with counts.
const callgrindOut = "callgrind.out"

func missingCallgrind() string {
	for _, name := range []string{"valgrind", "callgrind_control"} {
		if _, err := exec.LookPath(name); err != nil {
			return "there is no " + name + " on PATH"
		}
	}
	return ""
}

// underCallgrind returns how to start a Redis whose instructions are counted. Its clock ticks once a second,
// so that little of the count is the clock's.
func underCallgrind(folder string) (redisproc.Config, error) {
	server, err := redisproc.Find()
	if err != nil {
		return redisproc.Config{}, err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file='%s' '%s' \"$@\"\n", filepath.Join(folder, callgrindOut), server)
	path := filepath.Join(folder, "counted")
	return redisproc.Config{Binary: path, Args: []string{"--hz", "1"}}, os.WriteFile(path, []byte(script), 0o700) //nolint:gosec // it is run
}

// instructions returns how many instructions Redis has executed since the last call.
func (s *site) instructions(ctx context.Context) (float64, error) {
	if out, err := exec.CommandContext(ctx, "callgrind_control", "-d", strconv.Itoa(s.redis.PID())).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("callgrind_control: %w\n%s", err, out)
	}
	s.dumps++
	path, total := filepath.Join(s.folder, fmt.Sprintf("%s.%d", callgrindOut, s.dumps)), 0.0
	return total, await(ctx, pollEvery, path+" has its total", func() (found bool, err error) {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return false, nil
		}
		total, found = callgrindTotal(string(text))
		return found, err
	})
}

// callgrindTotal returns the total of a file with counts, which is at its end.
func callgrindTotal(text string) (total float64, found bool) {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, "totals: "); ok {
			total, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			return total, err == nil
		}
	}
	return 0, false
}
