package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// This program writes the text between the markers in the page.
const (
	beginMark = "<!-- figures: made by `cd bench/compare && go run . -write` -->"
	endMark   = "<!-- end of figures -->"
)

// writePage puts the tables into the page, and the charts beside it.
func (r *results) writePage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !found || !closed {
		return errors.New(path + " has lost its markers: " + beginMark + ", " + endMark)
	}
	pictures := filepath.Join(filepath.Dir(path), "pictures")
	return errors.Join(
		os.WriteFile(path, []byte(before+beginMark+"\n\n"+r.tables()+"\n"+endMark+after), 0o600), //nolint:gosec // the page is a constant, but for tests
		os.WriteFile(filepath.Join(pictures, "compared-quiet.svg"), []byte(r.quietChart()), 0o600),
		os.WriteFile(filepath.Join(pictures, "compared-speed.svg"), []byte(r.speedChart()), 0o600),
	)
}

// tables returns the text and the tables of the page.
func (r *results) tables() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s, one shared machine for servers, writers and workers. ", r.Machine)
	fmt.Fprintf(&out, "Figures are medians of %d rounds.\n", r.rounds())
	r.costTables(&out)
	r.speedTable(&out)
	r.quietTable(&out)
	out.WriteString("\nThe settings, each with its reason:\n\n| | setting | why |\n|---|---|---|\n")
	for _, p := range slices.Concat(peers(), variants()) {
		for _, s := range p.Settings {
			fmt.Fprintf(&out, "| %s, %s | %s | %s |\n", p.Title, p.Version, s.What, s.Why)
		}
	}
	return out.String()
}

// rounds is how many rounds each figure is the median of, at least; those that would be the same in
// each round do not count.
func (r *results) rounds() int {
	fewest := math.Inf(1)
	for _, m := range measures {
		for _, f := range r.Figures[m.Name] {
			if !m.once {
				fewest = min(fewest, f["rounds"])
			}
		}
	}
	if math.IsInf(fewest, 1) {
		return 0
	}
	return int(fewest)
}

// line is a line of the first table: some figures of a measurement in one cell.
type line struct {
	title, measure string
	figures        []string
	format         func(values []float64) string
}

var lines = []line{
	{"written one by one by 32 goroutines, a second", "throughput", []string{"write_per_s"}, rate},
	{"written in batches of 500, a second", "throughput", []string{"batch_write_per_s"}, rate},
	{"handled from a backlog by 50 handlers, a second", "throughput", []string{"drain_per_s"}, rate},
	{"written one by one and handled at once, a second", "throughput", []string{"both_per_s"}, rate},
	{"an idle worker begins after: p50, p99", "pickup", []string{"p50_ms", "p99_ms"}, times},
	{"one of two workers gets SIGKILL: lost, handled twice, all handled after", "kill", []string{"lost", "doubled", "recovered_s"}, crash},
	{"the server crashes and restarts: lost, handled twice, next message after", "restart", []string{"lost", "doubled", "paused_ms"}, pause},
	{"100,000 waiting messages of 100 bytes", "memory", []string{"mb_per_100k"}, megabytes},
}

func (r *results) speedTable(out *strings.Builder) {
	out.WriteString("\nRedis has an append-only file that is synced each second; PostgreSQL syncs each commit.\n\n|  |")
	for _, p := range peers() {
		fmt.Fprintf(out, " %s |", p.Title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(peers())) + "\n")
	for _, l := range lines {
		fmt.Fprintf(out, "| %s |", l.title)
		for _, p := range peers() {
			fmt.Fprintf(out, " %s |", r.cell(l, p))
		}
		out.WriteString("\n")
	}
}

func (r *results) cell(l line, p *peer) string {
	f := r.Figures[l.measure][p.Name]
	values := make([]float64, len(l.figures))
	for i, name := range l.figures {
		value, ok := f[name]
		switch {
		case !ok && r.Missing[p.Name] != "":
			return "not measured: " + r.Missing[p.Name]
		case !ok && f != nil:
			return "has none"
		case !ok:
			return "not measured"
		}
		values[i] = value
	}
	if p.postgres && l.measure == "memory" {
		return l.format(values) + " of disk"
	}
	return l.format(values)
}

// rows are the rows of the second table and of its chart that were measured.
func (r *results) rows() []row {
	var all []row
	for _, p := range peers() {
		all = append(all, row{peer: p})
		if p.queues {
			all = append(all, row{peer: p, queues: true})
		}
	}
	return slices.DeleteFunc(all, func(x row) bool { return r.Figures["flood"][x.Name()] == nil || r.Figures["slow"][x.Name()] == nil })
}

// Title is the row's name for people.
func (r row) Title() string {
	if r.queues {
		return r.peer.queuesName
	}
	return r.peer.Title
}

func (r *results) quietTable(out *strings.Builder) {
	out.WriteString("\nHow long 200 quiet tenants wait, from the moment on at which another one floods (20,000 messages of 5 ms) or is slow (200 messages of 500 ms), with 20 handlers:\n")
	out.WriteString("\n| | a flood: p50, p99 | the flood's messages, a second | a slow tenant: p50, p99 | the slow tenant's messages, a second (40 at most) |\n|---|---|---|---|---|\n")
	for _, x := range r.rows() {
		flood, slow := r.Figures["flood"][x.Name()], r.Figures["slow"][x.Name()]
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", x.Title(),
			times([]float64{flood["p50_ms"], flood["p99_ms"]}), rate([]float64{flood["other_per_s"]}),
			times([]float64{slow["p50_ms"], slow["p99_ms"]}), rate([]float64{slow["other_per_s"]}))
	}
}

func rate(values []float64) string { return thousands(values[0]) }

// thousands returns a number with two digits that count, and commas.
func thousands(v float64) string {
	if v <= 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	text := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', max(0, -int(math.Floor(math.Log10(unit)))), 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

func times(values []float64) string { return short(values[0]) + ", " + short(values[1]) }

// short returns milliseconds for people.
func short(ms float64) string {
	if ms >= 1000 {
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
	return thousands(ms) + " ms"
}

func crash(v []float64) string { return fmt.Sprintf("%.0f, %.0f, %s", v[0], v[1], short(1000*v[2])) }
func pause(v []float64) string { return fmt.Sprintf("%.0f, %.0f, %s", v[0], v[1], short(v[2])) }

func megabytes(values []float64) string { return thousands(values[0]) + " MB" }
