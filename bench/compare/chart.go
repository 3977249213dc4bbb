package main

import (
	"fmt"
	"math"
	"strings"
)

// head begins a chart, in colours for light and dark pages.
func head(height int, title, sub string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" font-family="system-ui, sans-serif" font-size="14">
<style>
  text { fill: #1f2328 } .quiet { fill: #59636e } .grid { stroke: #d1d9e0 } .one { fill: #0969da } .two { fill: #bf8700 } .ours { font-weight: 600 }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .quiet { fill: #9198a1 } .grid { stroke: #3d444d } .one { fill: #4493f8 } .two { fill: #d29922 } }
</style>
<text x="0" y="18" font-weight="600">%s</text>
<text x="0" y="38" class="quiet">%s</text>
`, height, title, sub)
}

func label(x, y int, ours bool, text string) string {
	class := ""
	if ours {
		class = ` class="ours"`
	}
	return fmt.Sprintf(`<text x="%d" y="%d" text-anchor="end"%s>%s</text>`+"\n", x, y, class, text)
}

// chartLeft is where bars begin.
const chartLeft = 210

func bar(class string, y int, width float64, text string) string {
	const height = 14
	width = max(3, width)
	return fmt.Sprintf(`<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="3"/><text x="%.0f" y="%d" font-size="12">%s</text>`+"\n",
		class, chartLeft, y, width, height, chartLeft+width+6, y+height-3, text)
}

// legend names the two colours.
func legend(y int, one, two string) string {
	return fmt.Sprintf(`<rect class="one" x="210" y="%d" width="12" height="12" rx="3"/><text x="228" y="%d">%s</text><rect class="two" x="420" y="%d" width="12" height="12" rx="3"/><text x="438" y="%d">%s</text>`+"\n",
		y-11, y, one, y-11, y, two)
}

// quietChart shows how long quiet tenants waited, on a logarithmic axis.
func (r *results) quietChart() string {
	const left, width, top, step = chartLeft, 430, 78, 44
	rows := r.rows()
	bottom := top + step*len(rows)
	var out strings.Builder
	out.WriteString(head(bottom+30, "How long 200 quiet tenants wait beside one that floods or is slow", "99 of 100 waited less; 20 handlers; logarithmic scale"))
	out.WriteString(legend(60, "beside a flood", "beside slow handlers"))
	at := func(ms float64) float64 { return width * math.Log10(max(1, ms)) / 5 } // 1 ms to 100 s
	for i, text := range []string{"1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"} {
		x := left + at(math.Pow10(i))
		fmt.Fprintf(&out, `<line class="grid" x1="%.0f" x2="%.0f" y1="%d" y2="%d"/><text class="quiet" x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x, x, top-8, bottom, x, bottom+20, text)
	}
	for i, x := range rows {
		y := top + step*i
		flood, slow := r.Figures["flood"][x.Name()]["p99_ms"], r.Figures["slow"][x.Name()]["p99_ms"]
		out.WriteString(label(left-12, y+19, x.peer == millracePeer, x.Title()))
		out.WriteString(bar("one", y, at(flood), short(flood)))
		out.WriteString(bar("two", y+16, at(slow), short(slow)))
	}
	return out.String() + "</svg>\n"
}

// speedChart shows messages a second, and the memory of those that wait.
func (r *results) speedChart() string {
	const left, width, top, step = chartLeft, 420, 78, 44
	var out strings.Builder
	out.WriteString(head(top+step*len(peers())+6, "Speed and memory", "messages of 100 bytes, written one by one and handled at once; 100,000 of them waiting"))
	out.WriteString(legend(60, "messages a second", "memory (River: disk)"))
	largest := func(measure, figure string) (most float64) {
		for _, p := range peers() {
			most = max(most, r.Figures[measure][p.Name][figure])
		}
		return max(most, 1)
	}
	fastest, biggest := largest("throughput", "both_per_s"), largest("memory", "mb_per_100k")
	for i, p := range peers() {
		y := top + step*i
		speed, size := r.Figures["throughput"][p.Name]["both_per_s"], r.Figures["memory"][p.Name]["mb_per_100k"]
		out.WriteString(label(left-12, y+19, p == millracePeer, p.Title))
		if speed == 0 || size == 0 {
			fmt.Fprintf(&out, `<text class="quiet" x="%d" y="%d">not measured</text>`+"\n", left, y+19)
			continue
		}
		out.WriteString(bar("one", y, width*speed/fastest, thousands(speed)))
		out.WriteString(bar("two", y+16, width*size/biggest, thousands(size)+" MB"))
	}
	return out.String() + "</svg>\n"
}
