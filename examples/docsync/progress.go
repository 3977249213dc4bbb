package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// sayEvery is how often a line is written where there is no terminal.
const sayEvery = 5 * time.Second

// progress shows how far long work is: as a bar on a terminal, elsewhere as a
// line now and then.
type progress struct {
	w     io.Writer
	what  string
	total int
	bar   *progressbar.ProgressBar // nil where there is no terminal
	said  time.Time
}

func newProgress(w io.Writer, what string, total int) *progress {
	p := &progress{w: w, what: what, total: total, said: time.Now()}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(file),
			progressbar.OptionSetDescription(fmt.Sprintf("%-5s", what)),
			progressbar.OptionShowCount(),
			progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond),
		)
	}
	return p
}

func (p *progress) set(done int) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set(done)
	case time.Since(p.said) >= sayEvery:
		p.said = time.Now()
		fmt.Fprintf(p.w, "%s: %d of %d\n", p.what, done, p.total)
	}
}

// finish leaves the full bar, or a last line, standing.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		fmt.Fprintln(p.w)
		return
	}
	fmt.Fprintf(p.w, "%s: %d of %d\n", p.what, p.total, p.total)
}
