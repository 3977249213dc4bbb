package luacheck

import (
	"regexp"
	"slices"
	"strings"
)

var (
	callForm     = regexp.MustCompile(`^-- ([a-z][a-z0-9]*\.[a-z][a-z0-9_]*)(\([^)]*\))?( .*)? -> \S`)
	fragmentForm = regexp.MustCompile(`^-- fragment ([a-z][a-z0-9_]*)`)

	labelForm    = regexp.MustCompile(`^-- (KEYS|ARGV|Reply|Cost|Repeat|Needs|Touches|Makes|Without|Gives)(?:\[[^\]]*\])?(?:\s{2,}(.*))?$`)
	continuation = regexp.MustCompile(`^--\s{3,}(\S.*)$`)

	scriptLabels   = []string{"KEYS", "ARGV", "Reply", "Cost", "Repeat"}
	fragmentLabels = []string{"Needs", "Gives"}
	libraryLabels  = []string{"Needs", "Touches", "Makes", "Without"} // see package script; not in every header
)

// header is what the comment block at the top of a file says.
type header struct {
	fragment     bool
	needs, gives []named
}

// named is a name that a header speaks of.
type named struct {
	name string
	line int // of the source
}

// checkHeader reads the header of the source under check.
func (l *linter) checkHeader(source string) header {
	first := l.source().first
	at := func(i int, format string, args ...any) { l.report(first+i, format, args...) }

	lines := commentLines(source)
	if len(lines) == 0 {
		at(0, "the file does not begin with a header: -- package.script args -> reply")
		return header{}
	}
	head := header{fragment: strings.HasPrefix(lines[0], "-- fragment ")}
	labels := scriptLabels
	if head.fragment {
		labels = fragmentLabels
	}
	i := 1
	call := lines[:1:1]
	for ; i < len(lines) && continuation.MatchString(lines[i]); i++ {
		call = append(call, continuation.FindStringSubmatch(lines[i])[1])
	}
	l.checkCallForm(strings.Join(call, " "), head.fragment)

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

	entries := map[string][]named{}
	label := ""
	for ; i < len(lines); i++ {
		text := ""
		if m := labelForm.FindStringSubmatch(lines[i]); m != nil {
			label, text = m[1], m[2]
			if !slices.Contains(labels, label) && !slices.Contains(libraryLabels, label) {
				at(i, "%s is not a label for this kind of file: those are %s", label, strings.Join(labels, ", "))
			}
			if text == "" {
				at(i, "%s says nothing", label)
			}
		} else if m := continuation.FindStringSubmatch(lines[i]); m != nil {
			text = m[1]
		} else if lines[i] != "--" {
			at(i, "this header line is neither a label nor the indented continuation of one")
		}
		entries[label] = append(entries[label], named{text, i + 1})
	}
	for _, want := range labels {
		if entries[want] == nil {
			at(0, "the header has no line for %s", want)
		}
	}
	head.needs, head.gives = namesIn(entries["Needs"]), namesIn(entries["Gives"])
	return head
}

// checkCallForm checks the first line and that it names the file it stands in.
func (l *linter) checkCallForm(call string, fragment bool) {
	name := strings.ReplaceAll(strings.TrimSuffix(l.file, ".lua"), "/", ".")
	form, shape := callForm, "-- package.script args -> reply"
	if fragment {
		form, shape = fragmentForm, "-- fragment name: what it is"
		name = name[strings.LastIndex(name, ".")+1:]
	}
	m := form.FindStringSubmatch(call)
	switch {
	case m == nil:
		l.report(l.source().first, "the first line is not of the form: %s", shape)
	case !strings.HasSuffix("."+name, "."+m[1]) && !strings.HasSuffix(m[1], "."+name):
		l.report(l.source().first, "the first line says %s, but the file is %s", m[1], l.file)
	}
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

var nameForm = regexp.MustCompile(`^([A-Za-z_]\w*)(?:\([^)]*\))?(?:,\s*)?`)

// namesIn returns the names in the text of Needs or Gives: lists of names, with
// or without parameters, that end at a colon, an arrow or the end of the label's
// own line. Other lines are prose.
func namesIn(lines []named) []named {
	var all []named
	open := true // a list may end at the end of this line
	for _, line := range lines {
		var names []named
		rest := line.name
		for m := nameForm.FindStringSubmatch(rest); m != nil; m = nameForm.FindStringSubmatch(rest) {
			names = append(names, named{m[1], line.line})
			rest = rest[len(m[0]):]
			if !strings.HasSuffix(strings.TrimSpace(m[0]), ",") {
				break
			}
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "->") || open && rest == "" {
			all = append(all, names...)
		}
		open = strings.HasSuffix(line.name, ",") && rest == ""
	}
	if len(all) == 1 && all[0].name == "nothing" {
		return nil
	}
	return all
}
