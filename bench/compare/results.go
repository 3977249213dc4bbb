package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// results are the medians of all measurements: by measurement, row and figure.
type results struct {
	Machine string                        `json:"machine"`
	Missing map[string]string             `json:"missing,omitempty"` // by system: why it was not measured
	Dates   map[string]string             `json:"dates,omitempty"`   // by measurement: when it was measured last
	Figures map[string]map[string]figures `json:"figures"`
}

func (r *results) set(measure, row string, f figures) {
	if r.Figures[measure] == nil {
		r.Figures[measure] = map[string]figures{}
	}
	for name, value := range f {
		// Four digits are more than a busy machine knows.
		f[name], _ = strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	}
	r.Figures[measure][row] = f
}

func newResults() *results {
	return &results{Missing: map[string]string{}, Dates: map[string]string{}, Figures: map[string]map[string]figures{}}
}

// loadResults returns the kept results.
func loadResults(path string) (*results, error) {
	r := newResults()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(text, r)
}

func (r *results) text() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// describeMachine describes the machine of the measurement, without names.
func describeMachine() string {
	parts := []string{strconv.Itoa(runtime.NumCPU()) + " CPUs (" + runtime.GOOS + "/" + runtime.GOARCH + ")", strings.Replace(runtime.Version(), "go", "Go ", 1)}
	add := func(name string, words int, program string, args ...string) {
		out, err := exec.Command(program, args...).Output()
		fields := strings.Fields(string(out))
		if err == nil && len(fields) >= words {
			parts = append(parts, name+" "+strings.TrimPrefix(strings.TrimPrefix(fields[words-1], "v="), "v"))
		}
	}
	add("redis-server", 3, "redis-server", "--version")
	add("PostgreSQL", 3, postgresPrograms()+"/postgres", "--version")
	add("node", 1, "node", "--version")
	return strings.Join(parts, ", ")
}
