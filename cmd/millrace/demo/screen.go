package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// lineEvery is how often progress is told where it cannot be redrawn.
	lineEvery = 2 * time.Second

	// barWidth is how many characters the bar of elapsed time has.
	barWidth = 30
)

// screen is where progress is shown. Nobody depends on it: what cannot be
// written is lost.
type screen struct {
	w    io.Writer
	live bool // a terminal: frames are redrawn in place

	drawn int       // lines of the frame that is on the terminal
	told  time.Time // when a frame was last written as a line
}

// frame is progress at one moment.
type frame struct {
	title string
	done  time.Duration
	whole time.Duration
	rows  [][]string // figures with their units, a few words each
}

// say writes a line that stays.
func (s *screen) say(format string, args ...any) {
	s.wipe()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// show draws a frame in place of the one before, or where there is no place
// writes it as a line now and then.
func (s *screen) show(f frame) {
	if s.live {
		s.draw(f)
		return
	}
	if time.Since(s.told) >= lineEvery {
		s.told = time.Now()
		fmt.Fprintln(s.w, f.line())
	}
}

// begin starts a scene's progress: the first line comes after lineEvery.
func (s *screen) begin() { s.told = time.Now() }

// wipe takes the frame off the terminal.
func (s *screen) wipe() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) draw(f frame) {
	var text strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", s.drawn)
	}
	lines := f.lines()
	for _, line := range lines {
		fmt.Fprintf(&text, "\r\x1b[K%s\n", line)
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.w, text.String()) // in one write, so that it does not flicker
}

// line returns the frame as one line.
func (f frame) line() string {
	var words []string
	for _, row := range f.rows {
		words = append(words, row...)
	}
	return fmt.Sprintf("  %s of %s: %s", seconds(f.done), seconds(f.whole), strings.Join(words, ", "))
}

// lines returns the frame with a bar, in columns, below 80 characters wide.
func (f frame) lines() []string {
	filled := barWidth
	if f.done < f.whole {
		filled = int(barWidth * f.done / f.whole)
	}
	bar := strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
	lines := []string{fmt.Sprintf("  %s  %s  %s of %s", f.title, bar, seconds(f.done), seconds(f.whole))}
	for _, row := range f.rows {
		var text strings.Builder
		for _, words := range row {
			fmt.Fprintf(&text, "  %-22s", words)
		}
		lines = append(lines, strings.TrimRight(text.String(), " "))
	}
	return lines
}

// seconds writes a duration as people read it here.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// briefly writes a duration of which the last digits do not count.
func briefly(d time.Duration) string {
	if d >= time.Second {
		return seconds(d)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// milliseconds writes a duration far below a second.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// grouped writes a number with a comma at each thousand.
func grouped[N int | int64](n N) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
