package main

import (
	"fmt"
	"strings"
)

// column is a column of a table of costs: some figures of a measurement in one cell.
type column struct {
	title string
	line
}

var processColumns = []column{
	{"redis-server's CPU a message", line{measure: "processes", figures: []string{"server_us"}, format: micros}},
	{"the processes' CPU", line{measure: "processes", figures: []string{"workers_us"}, format: micros}},
	{"messages a second", line{measure: "processes", figures: []string{"per_s"}, format: rate}},
	{"redis-server's CPU with an append-only file", line{measure: "processes-aof", figures: []string{"server_us"}, format: micros}},
	{"ten handlers each: redis-server's CPU", line{measure: "processes-of-ten", figures: []string{"server_us"}, format: micros}},
	{"ten each: messages a second", line{measure: "processes-of-ten", figures: []string{"per_s"}, format: rate}},
	{"one process: redis-server's CPU", line{measure: "one-process", figures: []string{"server_us"}, format: micros}},
	{"one process: its CPU", line{measure: "one-process", figures: []string{"workers_us"}, format: micros}},
	{"one process: messages a second", line{measure: "one-process", figures: []string{"per_s"}, format: rate}},
}

var steadyColumns = []column{
	{"redis-server's CPU a message", line{measure: "steady", figures: []string{"server_us"}, format: micros}},
	{"the workers' CPU", line{measure: "steady", figures: []string{"workers_us"}, format: micros}},
	{"a handler begins after: p50, p99", line{measure: "steady", figures: []string{"p50_ms", "p99_ms"}, format: times}},
}

var costColumns = []column{
	{"nothing more", line{measure: "processes", figures: []string{"server_us"}, format: micros}},
	{"a tenant is blocked", line{measure: "cost-blocked", figures: []string{"server_us"}, format: micros}},
	{"a default `MaxInFlight`", line{measure: "cost-flight", figures: []string{"server_us"}, format: micros}},
	{"a default `Rate`", line{measure: "cost-rate", figures: []string{"server_us"}, format: micros}},
	{"`Streams`", line{measure: "cost-streams", figures: []string{"server_us"}, format: micros}},
	{"handlers of 5 s", line{measure: "cost-long", figures: []string{"server_us"}, format: micros}},
	{"a replica", line{measure: "cost-replica", figures: []string{"server_us"}, format: micros}},
	{"bytes of append-only file", line{measure: "cost-file", figures: []string{"file_bytes"}, format: rate}},
}

var instructionColumns = []column{
	{"written alone", line{measure: "instructions", figures: []string{"write_1"}, format: rate}},
	{"read", line{measure: "instructions", figures: []string{"read_1"}, format: rate}},
	{"acknowledged", line{measure: "instructions", figures: []string{"ack_1"}, format: rate}},
	{"together", line{measure: "instructions", figures: []string{"sum_1"}, format: rate}},
	{"in calls of 8", line{measure: "instructions", figures: []string{"sum_8"}, format: rate}},
	{"in calls of 100", line{measure: "instructions", figures: []string{"sum_100"}, format: rate}},
}

// costTables show the cost of a message for the server and its clients.
func (r *results) costTables(out *strings.Builder) {
	fmt.Fprintf(out, "\nThe CPU time of a message that is written, handled and acknowledged, on %s. %d processes have one handler each and connections of their own, "+
		"so that they share no call. Each handler writes a message for the one that it handled, and %d messages wait. "+
		"Beside them: %d processes with ten handlers each, whose calls are shared where they meet, and one process with %d handlers. "+
		"Redis has no append-only file, unless the column says so. CPU times are steadier than rates.\n",
		r.date("processes"), processCount, processCount*processBacklog, processCount, processCount)
	r.costTable(out, processColumns, ofProcesses)
	fmt.Fprintf(out, "\nThe same at a low rate, on %s: a writer sends %d messages a second to two workers with 20 handlers each, without an append-only file:\n",
		r.date("steady"), steadyRate)
	r.costTable(out, steadyColumns, ofSteady)
	fmt.Fprintf(out, "\nredis-server's CPU time of a message of the %d processes with one thing more, on %s: a tenant of which more messages wait than may start; "+
		"a limit for all tenants that is never reached; %d streams, four for each tenant; %d handlers in each process that take 5 s; one replica. "+
		"asynq has no limits and no streams, and does the same without. The last column is by how much the append-only file grows:\n",
		processCount, r.date("cost-blocked"), costStreams, longHandlers)
	r.costTable(out, costColumns, ofCosts)
	fmt.Fprintf(out, "\nOn %s: instructions of redis-server for a message (callgrind; without the kernel), which vary by a few per cent. "+
		"asynq has one number for reading and acknowledging, which is part of \"together\":\n", r.date("instructions"))
	r.costTable(out, instructionColumns, ofInstructions)
}

func (r *results) date(measure string) string {
	if date := r.Dates[measure]; date != "" {
		return date
	}
	return "no day yet"
}

// costTable is a table with a system in each row.
func (r *results) costTable(out *strings.Builder, columns []column, of []*peer) {
	out.WriteString("\n| |")
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, p := range of {
		fmt.Fprintf(out, "| %s |", p.Title)
		for _, c := range columns {
			fmt.Fprintf(out, " %s |", r.cell(c.line, p))
		}
		out.WriteString("\n")
	}
}

func micros(values []float64) string { return thousands(values[0]) + " us" }
