package main

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	rows       = 27 // of the terminal
	lineHeight = 17
	firstLine  = 58
	frameEvery = 200 * time.Millisecond
	readFor    = 6 * time.Second // how long each page of the results is shown
)

// terminal remembers each screen of a terminal, and its time. It knows the few things that internal/screen asks of one.
type terminal struct {
	began  time.Time
	lines  []string
	row    int // of the cursor
	frames []frame
}

// frame is the screen from a moment on.
type frame struct {
	at    time.Duration
	lines []string
}

func newTerminal(first string) *terminal {
	return &terminal{began: time.Now(), lines: []string{first}, row: 1}
}

var control = regexp.MustCompile("^\x1b\\[(\\d*)([AJK])")

// Write shows text.
func (t *terminal) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		if code := control.FindStringSubmatch(rest); code != nil {
			switch code[2] {
			case "A":
				up, _ := strconv.Atoi(code[1])
				t.row -= up
			case "J":
				t.lines = t.lines[:t.row]
			}
			rest = rest[len(code[0]):]
			continue
		}
		switch next := rest[0]; next {
		case '\r':
			rest = rest[1:]
		case '\n':
			t.put("")
			rest = rest[1:]
			t.row++
		default:
			end := strings.IndexAny(rest, "\r\n\x1b")
			if end < 0 {
				end = len(rest)
			}
			t.put(rest[:end])
			rest = rest[end:]
		}
	}
	at := time.Since(t.began)
	if last := len(t.frames) - 1; last >= 0 && at-t.frames[last].at < frameEvery {
		t.frames[last].lines = slices.Clone(t.lines)
	} else {
		t.frames = append(t.frames, frame{at, slices.Clone(t.lines)})
	}
	return len(text), nil
}

// put adds a text to the line of the cursor, which the caller has begun anew unless it is empty.
func (t *terminal) put(text string) {
	for len(t.lines) <= t.row {
		t.lines = append(t.lines, "")
	}
	if text != "" {
		t.lines[t.row] = text
	}
}

// picture draws the screens of the terminal, in their time, and then the results, a page after the other. Where things should
// not move, it draws the first page of the results.
func (t *terminal) picture() string {
	results := t.frames[len(t.frames)-1]
	live := slices.DeleteFunc(t.frames[:len(t.frames)-1], func(f frame) bool { return !slices.ContainsFunc(f.lines, isBar) })
	table := slices.IndexFunc(results.lines, func(line string) bool { return strings.HasSuffix(line, "one line") })
	fixed := slices.IndexFunc(live[0].lines, isBar) // lines above the first bar
	start := live[0].at

	var p drawing
	p.during(0, results.at-start, 0, live[0].lines[:fixed])
	for i, f := range live {
		until := results.at
		if i+1 < len(live) {
			until = live[i+1].at
		}
		p.during(f.at-start, until-start, fixed, f.lines[fixed:])
	}
	p.during(results.at-start, results.at-start+readFor, 0, results.lines[table:table+rows])
	p.still = len(p.parts) - 1
	p.during(results.at-start+readFor, results.at-start+2*readFor, 0, results.lines[len(results.lines)-rows:])
	return p.svg()
}

// isBar reports whether a line is redrawn again and again.
func isBar(line string) bool { return strings.ContainsAny(line, "█▓░") }

// drawing is a picture whose parts are seen one after the other, again and again.
type drawing struct {
	parts []part
	still int // the part that is seen where nothing should move
}

type part struct {
	from, until time.Duration
	row         int
	lines       []string
}

func (p *drawing) during(from, until time.Duration, row int, lines []string) {
	p.parts = append(p.parts, part{from, until, row, lines})
}

func (p *drawing) svg() string {
	var out strings.Builder
	height := firstLine + lineHeight*rows
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">
<style>
  text { fill: #e6edf3; white-space: pre }
  .ok { fill: #3fb950 } .head { fill: #79c0ff; font-weight: 600 }
  g { visibility: hidden }
`, height)
	whole := p.parts[len(p.parts)-1].until
	percent := func(at time.Duration) float64 { return 100 * at.Seconds() / whole.Seconds() }
	for i, f := range p.parts {
		fmt.Fprintf(&out, "  @keyframes f%d { 0%% { visibility: hidden } %.2f%% { visibility: visible } %.2f%% { visibility: hidden } }\n", i, percent(f.from), percent(f.until))
		fmt.Fprintf(&out, "  #f%d { animation: f%d %.1fs step-end infinite }\n", i, i, whole.Seconds())
	}
	fmt.Fprintf(&out, `  @media (prefers-reduced-motion: reduce) { g { animation: none !important } #f%d { visibility: visible } }
</style>
<rect width="720" height="%d" rx="8" fill="#0d1117"/>
<circle cx="20" cy="20" r="6" fill="#ff5f57"/><circle cx="40" cy="20" r="6" fill="#febc2e"/><circle cx="60" cy="20" r="6" fill="#28c840"/>
`, p.still, height)
	for i, f := range p.parts {
		fmt.Fprintf(&out, `<g id="f%d">`+"\n", i)
		for n, line := range f.lines {
			if line != "" {
				fmt.Fprintf(&out, `<text x="20" y="%d"%s>%s</text>`+"\n", firstLine+lineHeight*(f.row+n), class(line), html.EscapeString(line))
			}
		}
		out.WriteString("</g>\n")
	}
	return out.String() + "</svg>\n"
}

// class returns the attribute of a line that has a colour.
func class(line string) string {
	switch {
	case strings.HasPrefix(line, "$ "), strings.HasPrefix(line, "1/1"):
		return ` class="head"`
	case strings.HasPrefix(line, "  ok"):
		return ` class="ok"`
	}
	return ""
}
