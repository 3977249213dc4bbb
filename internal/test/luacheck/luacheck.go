package luacheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/millrace/millrace/internal/redis/commands"
	"github.com/millrace/millrace/internal/redis/script"
)

// Problem is one place where a rule is broken.
type Problem struct {
	File    string // of the library, or a path below the root
	Line    int    // counted from 1
	Message string
}

// String returns "file:line: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Check returns the problems of the scripts of a library and of the fragments in front of
// them, by file and line.
func Check(library *script.Library) []Problem {
	table, err := commands.Redis62()
	if err != nil {
		return []Problem{{File: "commands", Line: 1, Message: err.Error()}}
	}
	var problems []Problem
	for _, s := range library.Scripts() {
		l := newLinter(library, s, table)
		l.check()
		for _, p := range l.problems {
			if !slices.Contains(problems, p) { // scripts share fragments
				problems = append(problems, p)
			}
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return problems
}

// linter is the check of one script. Fragments and script are one text, as they
// are on the server; chunks tells the files apart again.
type linter struct {
	script   *script.Script
	table    *commands.Table
	prefix   string   // how keys of the base baseName begin
	keys     []string // those that the script may touch, of the base baseName
	chunks   []chunk
	problems []Problem
}

// baseName is the base key in messages.
const baseName = "BASE"

// chunk is the part of the text that came from one file.
type chunk struct {
	file        string // empty for the line in front of all
	source      string
	first, last int // lines of the text
}

func newLinter(library *script.Library, s *script.Script, table *commands.Table) *linter {
	l := &linter{script: s, table: table, prefix: library.Prefix(baseName), keys: library.Patterns(s, baseName)}
	file, fragments := s.File()
	line := 1
	for _, name := range append(append([]string{""}, fragments...), file) {
		source := library.Text(name)
		if name == "" {
			source = s.Prelude()
		}
		c := chunk{file: name, source: strings.TrimSuffix(source, "\n"), first: line}
		c.last = line + strings.Count(c.source, "\n")
		line = c.last + 1
		l.chunks = append(l.chunks, c)
	}
	return l
}

func (l *linter) check() {
	var text strings.Builder
	for _, c := range l.chunks {
		text.WriteString(c.source + "\n")
		if c.file != "" {
			l.checkHeader(c)
		}
	}
	block, err := parse.Parse(strings.NewReader(text.String()), "")
	if err != nil {
		l.reportParse(err)
		return
	}
	l.checkTree(block)
	code, err := lua.Compile(block, "")
	if err != nil {
		l.report(l.own().last, "%v", err)
		return
	}
	l.checkGlobals(code)
}

// own returns the chunk of the script itself.
func (l *linter) own() chunk { return l.chunks[len(l.chunks)-1] }

// report notes a problem in a line of the text. A problem in a fragment may come from the
// script's arguments to it.
func (l *linter) report(line int, format string, args ...any) {
	c := l.own()
	if i := slices.IndexFunc(l.chunks, func(c chunk) bool { return line <= c.last }); i >= 0 {
		c = l.chunks[i]
	}
	message := fmt.Sprintf(format, args...)
	if c.file != l.own().file {
		message += ", in front of " + l.script.Name()
	}
	l.problems = append(l.problems, Problem{c.file, line - c.first + 1, message})
}

func (l *linter) reportParse(err error) {
	line, message := l.own().last, err.Error()
	if e, ok := errors.AsType[*parse.Error](err); ok {
		message = "syntax error near the end of the file"
		if e.Pos.Line > 0 {
			line, message = e.Pos.Line, fmt.Sprintf("syntax error near %q", e.Token)
		}
	}
	l.report(line, "%s", message)
}
