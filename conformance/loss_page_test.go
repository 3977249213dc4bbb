package conformance

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

var updateLoss = flag.Bool("update", false, "write what TestLoss has measured into docs/LOSS.md")

const (
	lossPage   = "../docs/LOSS.md"
	lossHeader = "| fault | setting | lost | twice | a program sees | do | test |\n|---|---|---|---|---|---|---|\n"
	lossDate   = "Measured on "
)

// lossCells are the cells of the page that are measured.
type lossCells struct{ lost, twice string }

// lossResults are the outcomes of rows, which are written to the page with -update.
type lossResults struct {
	mu sync.Mutex
	by map[string]lossCells
}

func newLossResults(t *testing.T) *lossResults {
	t.Helper()
	r := &lossResults{by: map[string]lossCells{}}
	if *updateLoss {
		t.Cleanup(func() { r.write(t) }) // after all rows
	}
	return r
}

func (r *lossResults) add(row lossRow, o outcome) {
	cells := lossCells{fmt.Sprintf("%d of %d", o.lost, o.confirmed), fmt.Sprint(o.twice)}
	if o.lost > 0 {
		cells.lost += fmt.Sprintf(", in %.1f s", max(o.within.Seconds(), 0.1))
	}
	if o.again > 0 {
		cells.twice += fmt.Sprintf(", %d acknowledged", o.again)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[row.name] = cells
}

// write replaces the table. Rows that were not played keep their last figures.
func (r *lossResults) write(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Logf("%s stays as it is", lossPage)
		return
	}
	text, err := os.ReadFile(lossPage)
	must(t, "the page", err)
	head, table, tail := splitLossPage(t, string(text))
	before := map[string]lossCells{}
	for _, cells := range table {
		before[cells[6]] = lossCells{cells[2], cells[3]}
	}
	var page strings.Builder
	page.WriteString(head + lossHeader)
	for _, row := range lossRows {
		measured := r.by[row.name]
		if measured == (lossCells{}) {
			measured = before[lossTestCell(row)]
		}
		fmt.Fprintf(&page, "| %s |\n", strings.Join([]string{
			row.fault, cmp.Or(row.setting, " "), cmp.Or(measured.lost, "?"), cmp.Or(measured.twice, "?"), row.sees, row.do, lossTestCell(row),
		}, " | "))
	}
	if len(r.by) == len(lossRows) {
		_, rest, _ := strings.Cut(tail[strings.Index(tail, lossDate):], "\n")
		tail = "\n" + lossConditions(t) + "\n" + rest
	}
	page.WriteString(tail)
	must(t, "the page", os.WriteFile(lossPage, []byte(page.String()), 0o644))
}

func lossConditions(t *testing.T) string {
	t.Helper()
	version, err := exec.CommandContext(context.Background(), redistest.Binary(t), "--version").Output()
	must(t, "--version", err)
	return fmt.Sprintf("%s%s with %s, on a machine with %d CPUs; a row lasts a few seconds, with %d writers that pause for %s after each message.",
		lossDate, time.Now().UTC().Format(time.DateOnly), strings.Join(strings.Fields(string(version))[:3], " "), runtime.NumCPU(), lossWriters, lossPace)
}

func lossTestCell(row lossRow) string { return "`" + row.name + "`" }

// splitLossPage returns the page's text before the table, the cells of its rows, and the text behind it.
func splitLossPage(t *testing.T, page string) (head string, rows [][]string, tail string) {
	t.Helper()
	head, rest, ok := strings.Cut(page, lossHeader)
	table, tail, ends := strings.Cut("\n"+rest, "\n\n"+lossDate)
	if !ok || !ends {
		t.Fatalf("%s has no table with the header\n%sand a line that begins with %q behind it", lossPage, lossHeader, lossDate)
	}
	lines := bufio.NewScanner(strings.NewReader(strings.TrimPrefix(table, "\n")))
	for lines.Scan() {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "| "), " |"), " | ")
		if len(cells) != 7 {
			t.Fatalf("%s: a row of %d cells: %s", lossPage, len(cells), lines.Text())
		}
		rows = append(rows, cells)
	}
	return head, rows, "\n" + lossDate + tail
}

// TestLossPage: docs/LOSS.md has the rows of TestLoss, and no other.
func TestLossPage(t *testing.T) {
	t.Parallel()
	if *updateLoss {
		t.Skip("TestLoss writes the page")
	}
	text, err := os.ReadFile(lossPage)
	must(t, "the page", err)
	_, table, _ := splitLossPage(t, string(text))
	names := map[string]bool{}
	for i, row := range lossRows {
		if names[row.name] || row.fault == "" || row.sees == "" || row.do == "" {
			t.Errorf("row %q has no name of its own, or misses a cell", row.name)
		}
		names[row.name] = true
		if i >= len(table) {
			t.Errorf("the page has no row %s", row.name)
			continue
		}
		there := slices.Clone(table[i])
		if there[2] == "?" || there[3] == "?" {
			t.Errorf("row %s is not measured", row.name)
		}
		there[2], there[3] = "", ""
		want(t, "row "+row.name, there, []string{row.fault, cmp.Or(row.setting, " "), "", "", row.sees, row.do, lossTestCell(row)}, nil)
	}
	if len(table) > len(lossRows) {
		t.Errorf("the page has %d rows, and TestLoss %d", len(table), len(lossRows))
	}
	if t.Failed() {
		t.Log("go test -run TestLoss ./conformance -update")
	}
}
