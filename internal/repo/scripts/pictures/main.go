// Program pictures plays the scene "queue" of the demo and draws two pictures of it for the
// README: docs/pictures/flood.svg, how long quiet tenants waited, and docs/pictures/demo.svg,
// the terminal while it runs.
//
//	go run ./internal/repo/scripts/pictures
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/cmd/millrace/demo"
	"github.com/millrace/millrace/internal/chaos"
)

const folder = "docs/pictures/"

func main() {
	ctx := context.Background()
	if code, ok := chaos.Child(ctx, os.Args[1:], demo.Scenes()); ok {
		os.Exit(code)
	}
	if err := draw(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// draw plays the scene and writes both pictures.
func draw(ctx context.Context) error {
	scenes, err := demo.Choose("queue")
	if err != nil {
		return err
	}
	shown := newTerminal("$ millrace demo")
	report, err := chaos.Run(ctx, chaos.Config{Scenes: scenes, Results: shown, Progress: shown, Live: true})
	if err != nil {
		return err
	}
	if !report.OK {
		return errors.New("a check of the scene failed; there is nothing to show")
	}
	figures, err := json.Marshal(report.Scenes[0])
	if err != nil {
		return err
	}
	var w waits
	if err := json.Unmarshal(figures, &w); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(folder+"flood.svg", []byte(w.chart()), 0o600),
		os.WriteFile(folder+"demo.svg", []byte(shown.picture()), 0o600),
	)
}

// waits is how long quiet tenants waited in the flood, in milliseconds.
type waits struct {
	FairMedian int `json:"quiet_pickup_median_ms"`
	Fair99     int `json:"quiet_pickup_p99_ms"`
	LineMedian int `json:"line_quiet_pickup_median_ms"`
	Line99     int `json:"line_quiet_pickup_p99_ms"`
	Flood      int
}

// chart draws bars on a logarithmic axis, in colours for light and dark pages.
func (w waits) chart() string {
	var out strings.Builder
	out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 230" font-family="system-ui, sans-serif" font-size="14">
<style>
  text { fill: #1f2328 } .quiet { fill: #59636e } .fair { fill: #1a7f37 } .line { fill: #cf222e } .grid { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .quiet { fill: #9198a1 } .fair { fill: #3fb950 } .line { fill: #f85149 } .grid { stroke: #3d444d } }
</style>
`)
	fmt.Fprintf(&out, `<text x="0" y="18" font-weight="600">One tenant floods: how long 50 quiet tenants wait for a worker</text>`+"\n")
	fmt.Fprintf(&out, `<text x="0" y="38" class="quiet">one run of “millrace demo”: a backlog of 2,000 messages, 12 handlers; logarithmic scale</text>`+"\n")
	const left, width = 190, 430
	at := func(ms int) float64 { return width * math.Log10(float64(max(1, ms))) / 4 } // 1 ms to 10 s
	for ms, label := 1, 0; ms <= 10000; ms, label = ms*10, label+1 {
		x := left + at(ms)
		fmt.Fprintf(&out, `<line class="grid" x1="%.0f" x2="%.0f" y1="54" y2="198"/><text class="quiet" x="%.0f" y="218" text-anchor="middle">%s</text>`+"\n",
			x, x, x, []string{"1 ms", "10 ms", "100 ms", "1 s", "10 s"}[label])
	}
	for i, bar := range []struct {
		label, class string
		ms           int
	}{
		{"fair queue, median", "fair", w.FairMedian},
		{"fair queue, 99%", "fair", w.Fair99},
		{"one line, median", "line", w.LineMedian},
		{"one line, 99%", "line", w.Line99},
	} {
		y := 62 + 34*i
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="22" rx="3"/><text x="%.0f" y="%d">%s</text>`+"\n",
			left-12, y+16, bar.label, bar.class, left, y, max(3, at(bar.ms)), left+8+max(3, at(bar.ms)), y+16, chaos.Brief(time.Duration(bar.ms)*time.Millisecond))
	}
	return out.String() + "</svg>\n"
}
