// Package screen shows people how far a long command is: on a terminal a frame that
// is redrawn in place, and elsewhere a line now and then.
//
//	a terminal   first  ██████████░░░░░░░░░░  4.0 s of 8.0 s
//	               4,012 changes         1,204 waiting
//	elsewhere    4.0 s of 8.0 s: 4,012 changes, 1,204 waiting
//
// A screen never fails its caller: text that cannot be written is lost. One goroutine at a
// time may use a screen.
package screen

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

// Screen is where progress is shown.
type Screen struct {
	w    io.Writer
	live bool

	drawn int       // lines of the frame that is on the terminal
	told  time.Time // when a frame was last written as a line
}

// Frame is progress at one moment.
type Frame struct {
	Title string
	Done  time.Duration
	Whole time.Duration
	Lanes []Lane
	Rows  [][]string // figures with their units, a few words each
}

// Lane is one of several things that go on side by side. Its bar is full when all is done.
type Lane struct {
	Name  string // of at most 14 characters
	Done  int
	Whole int
	Note  string // a few words
}

// New returns a screen on w. If it is live, w is a terminal, on which frames are
// redrawn in place.
func New(w io.Writer, live bool) *Screen { return &Screen{w: w, live: live} }

// Say writes a line that stays.
func (s *Screen) Say(format string, args ...any) {
	s.Wipe()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// Show draws a frame in place of the one before, or where there is no place
// writes it as a line now and then.
func (s *Screen) Show(f Frame) {
	if s.live {
		s.draw(f)
		return
	}
	if time.Since(s.told) >= lineEvery {
		s.told = time.Now()
		fmt.Fprintln(s.w, f.line())
	}
}

// Begin starts a scene's progress: the first line comes after lineEvery.
func (s *Screen) Begin() { s.told = time.Now() }

// Wipe takes the frame off the terminal.
func (s *Screen) Wipe() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *Screen) draw(f Frame) {
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
func (f Frame) line() string {
	var words []string
	for _, row := range f.Rows {
		words = append(words, row...)
	}
	return fmt.Sprintf("  %s: %s", f.time(), strings.Join(words, ", "))
}

// lines returns the frame with a bar, in columns, below 80 characters wide.
func (f Frame) lines() []string {
	filled := barWidth
	if f.Done < f.Whole {
		filled = int(barWidth * f.Done / f.Whole)
	}
	lines := []string{fmt.Sprintf("  %s  %s  %s", f.Title, bar(filled, '█'), f.time())}
	for _, l := range f.Lanes {
		lines = append(lines, fmt.Sprintf("  %-14s  %s  %s", l.Name, bar(barWidth*l.Done/max(1, l.Whole), '▓'), l.Note))
	}
	for _, row := range f.Rows {
		var text strings.Builder
		for _, words := range row {
			fmt.Fprintf(&text, "  %-22s", words)
		}
		lines = append(lines, strings.TrimRight(text.String(), " "))
	}
	return lines
}

func bar(filled int, full rune) string {
	return strings.Repeat(string(full), filled) + strings.Repeat("░", barWidth-filled)
}

func (f Frame) time() string {
	return fmt.Sprintf("%.1f s of %.1f s", f.Done.Seconds(), f.Whole.Seconds())
}
