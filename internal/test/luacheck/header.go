package luacheck

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	callForm     = regexp.MustCompile(`^-- ([a-z][a-z0-9]*\.[a-z][a-z0-9_]*)(\([^)]*\))?( .*)? -> \S`)
	fragmentForm = regexp.MustCompile(`^-- fragment ([a-z][a-z0-9_]*)`)

	labelForm    = regexp.MustCompile(`^-- (KEYS|ARGV|Reply|Cost|Repeat|Needs|Touches|Makes|Beside|Without|Replica|Gives)(?:\[[^\]]*\])?(?:\s{2,}(.*))?$`)
	continuation = regexp.MustCompile(`^--\s{3,}(\S.*)$`)

	scriptLabels   = []string{"KEYS", "ARGV", "Reply", "Cost", "Repeat"}
	fragmentLabels = []string{"Needs", "Gives"}
	libraryLabels  = []string{"Needs", "Touches", "Makes", "Beside", "Without", "Replica"} // see package script; not in every header
)

// checkHeader reads the header of a file.
func (l *linter) checkHeader(c chunk) {
	at := func(i int, format string, args ...any) {
		// A problem of a fragment's header is not one of the script.
		l.problems = append(l.problems, Problem{c.file, i + 1, fmt.Sprintf(format, args...)})
	}
	lines := commentLines(c.source)
	fragment := fragmentForm.MatchString(lines[0])
	labels := scriptLabels
	if fragment {
		labels = fragmentLabels
	}
	i := 1
	call := lines[:1:1]
	for ; i < len(lines) && continuation.MatchString(lines[i]); i++ {
		call = append(call, continuation.FindStringSubmatch(lines[i])[1])
	}
	if problem := checkCallForm(c.file, strings.Join(call, " "), fragment); problem != "" {
		at(0, "%s", problem)
	}

	prose := false
	for ; i < len(lines); i++ {
		if lines[i-1] == "--" && labelForm.MatchString(lines[i]) {
			break
		}
		prose = prose || lines[i] != "--"
	}
	if !prose {
		at(min(i, len(lines)-1), "the header has no paragraph that says what the file does, in front of the labelled lines")
	}

	seen := map[string]bool{}
	for ; i < len(lines); i++ {
		if m := labelForm.FindStringSubmatch(lines[i]); m != nil {
			seen[m[1]] = true
			if !slices.Contains(labels, m[1]) && !slices.Contains(libraryLabels, m[1]) {
				at(i, "%s is not a label for this kind of file: those are %s", m[1], strings.Join(labels, ", "))
			}
			if m[2] == "" {
				at(i, "%s says nothing", m[1])
			}
		} else if lines[i] != "--" && !continuation.MatchString(lines[i]) {
			at(i, "this header line is neither a label nor the indented continuation of one")
		}
	}
	for _, want := range labels {
		if !seen[want] {
			at(0, "the header has no line for %s", want)
		}
	}
}

// checkCallForm returns the problem of a file's first line, which names the file.
func checkCallForm(file, call string, fragment bool) string {
	form, shape := callForm, "-- package.script args -> reply"
	if fragment {
		form, shape = fragmentForm, "-- fragment name: what it is"
	}
	m := form.FindStringSubmatch(call)
	if m == nil {
		return "the first line is not of the form: " + shape
	}
	if name := m[1][strings.Index(m[1], ".")+1:]; name+".lua" != path.Base(file) {
		return fmt.Sprintf("the first line says %s, but the file is %s", m[1], file)
	}
	return ""
}

// commentLines returns the comment lines at the top of a source, without
// trailing space.
func commentLines(source string) []string {
	var lines []string
	for line := range strings.Lines(source) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return lines
}
