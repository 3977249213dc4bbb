package luacheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/millrace/millrace/internal/commands"
	"github.com/millrace/millrace/internal/script"
)

// Problem is one place where a rule is broken.
type Problem struct {
	File    string // the name given to Check, or a path below the root
	Line    int    // counted from 1
	Message string
}

// String returns "file:line: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Options says what a script is checked with.
type Options struct {
	// Prelude holds the sources of the fragments in front of the script, in
	// order. Their calls are checked too, with the values that this script
	// gives them. Defaults to none.
	Prelude []string

	// Keys returns every key that the Go side derives from a base key, with a
	// star for each part that only the running script knows. Defaults to nil:
	// keys must then be built from KEYS[1], whatever they are.
	Keys func(base string) []string

	library bool // needs are fragments
}

// Check returns what is wrong with a script or a fragment, by line. The name is
// that of the script ("ick.add") or of its file ("ick/add.lua"); the header must
// agree with it.
func Check(name, source string, opts Options) []Problem {
	return check(name, source, opts, nil)
}

// CheckLibrary returns what is wrong with the scripts of a library: as [Check], with the
// keys that their headers say they touch.
func CheckLibrary(l *script.Library) []Problem {
	var problems []Problem
	for _, s := range l.Scripts() {
		file, fragments := s.File()
		prelude := []string{l.Prelude()}
		for _, f := range fragments {
			prelude = append(prelude, l.Text(f))
		}
		problems = append(problems, Check(s.Name(), l.Text(file), Options{
			Prelude: prelude,
			Keys:    func(base string) []string { return l.Patterns(s, base) },
			library: true,
		})...)
	}
	return problems
}

// check is Check for a script that also uses the given names, defined by
// fragments that are not at hand.
func check(name, source string, opts Options, given []string) []Problem {
	table, err := commands.Redis62()
	if err != nil {
		return []Problem{{File: name, Line: 1, Message: err.Error()}}
	}
	l := newLinter(name, source, opts, table)
	head := l.checkHeader(source)
	if opts.library {
		head.needs = nil
	}

	block, err := parse.Parse(strings.NewReader(l.text), "")
	if err != nil {
		l.reportParse(err)
		return l.sorted()
	}
	l.checkNames(block, head, given)
	if opts.Keys != nil {
		l.keys = opts.Keys(baseName)
	}
	for _, call := range l.calls {
		l.checkCall(call)
	}
	return l.sorted()
}

// linter is the check of one script. Fragments and script are one text, as they
// are on the server; chunks tells the lines apart again.
type linter struct {
	file     string
	table    *commands.Table
	keys     []string // all keys of the base baseName, or nil if unknown
	text     string
	chunks   []chunk
	problems []Problem

	// What checkNames finds out.
	names     map[*ast.IdentExpr]*local // globals are not in it
	functions map[*ast.FunctionExpr]*function
	calls     []*ast.FuncCallExpr // of redis.call and redis.pcall
}

// chunk is the part of the text that came from one source.
type chunk struct {
	first, last int    // lines of the text
	fragment    string // the fragment's name; empty for the source under check
}

func newLinter(name, source string, opts Options, t *commands.Table) *linter {
	l := &linter{
		file:      name,
		table:     t,
		names:     map[*ast.IdentExpr]*local{},
		functions: map[*ast.FunctionExpr]*function{},
	}
	sources := append(slices.Clone(opts.Prelude), source)
	l.text = strings.Join(sources, "\n")
	line := 1
	for i, s := range sources {
		c := chunk{first: line, last: line + strings.Count(s, "\n")}
		if i < len(opts.Prelude) {
			c.fragment = "without a name"
			if m := fragmentForm.FindStringSubmatch(firstLine(s)); m != nil {
				c.fragment = m[1]
			}
		}
		l.chunks = append(l.chunks, c)
		line = c.last + 1
	}
	return l
}

// source returns the chunk under check.
func (l *linter) source() chunk { return l.chunks[len(l.chunks)-1] }

// report notes a problem in a line of the text. A problem inside a fragment is
// the script's, at its first line: it is the script that put the fragment there.
func (l *linter) report(line int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	c := l.source()
	if i := slices.IndexFunc(l.chunks, func(c chunk) bool { return line <= c.last }); i >= 0 {
		c = l.chunks[i]
	}
	line -= c.first - 1
	if c.fragment != "" {
		message = fmt.Sprintf("with fragment %s, line %d of it: %s", c.fragment, line, message)
		line = 1
	}
	l.problems = append(l.problems, Problem{l.file, line, message})
}

func (l *linter) reportParse(err error) {
	line, message := l.source().last, err.Error()
	if e, ok := errors.AsType[*parse.Error](err); ok {
		message = "syntax error near the end of the file"
		if e.Pos.Line > 0 {
			line, message = e.Pos.Line, fmt.Sprintf("syntax error near %q", e.Token)
		}
	}
	l.report(line, "%s", message)
}

// sorted returns the problems by line, in the order found within one.
func (l *linter) sorted() []Problem {
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return a.Line - b.Line })
	return slices.Compact(l.problems)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
