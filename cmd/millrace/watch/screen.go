// Package watch draws results on a terminal, each in place of the one before.
package watch

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
)

// Screen is the second screen of a terminal, beside that of its shell.
type Screen struct {
	file   *os.File
	closed bool
}

// IsTerminal reports whether a stream is a terminal. The null device is none.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// NewScreen switches to the second screen. It returns nil if out is no terminal.
func NewScreen(out io.Writer) *Screen {
	if !IsTerminal(out) {
		return nil
	}
	file, _ := out.(*os.File)
	fmt.Fprint(file, "\x1b[?1049h\x1b[?25l\x1b[?7l") // another screen, no cursor, no lines that wrap
	return &Screen{file: file}
}

// Close switches back. A nil Screen and a second call do nothing.
func (s *Screen) Close() {
	if s != nil && !s.closed {
		s.closed = true
		fmt.Fprint(s.file, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
}

// Draw replaces the screen by two words in its first line, left and right, and as
// many lines of a text as fit.
func (s *Screen) Draw(left, right, text string) {
	width, height, err := term.GetSize(s.file.Fd())
	if err != nil {
		width, height = 80, 24
	}
	room := max(0, width-len(right)-1)
	lines := []string{fmt.Sprintf("%-*.*s %s", room, room, left, right), ""}
	lines = append(lines, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
	if len(lines) > height {
		lines = append(lines[:max(0, height-1)], "…")
	}
	fmt.Fprint(s.file, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
}
