package grafana

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readYAML reads the part of YAML that alerts.yaml is written in: maps and lists by
// indentation, plain, quoted and folded (>-) texts, and comments on lines of their
// own. A map is a map[string]any, a list is a []any, all else is a string.
func readYAML(text string) (any, error) {
	r := &yamlReader{}
	for i, line := range strings.Split(text, "\n") {
		content := strings.TrimLeft(line, " ")
		if content == "" || content[0] == '#' {
			continue
		}
		if strings.ContainsRune(line, '\t') {
			return nil, fmt.Errorf("line %d has a tab", i+1)
		}
		r.lines = append(r.lines, yamlLine{i + 1, len(line) - len(content), content})
	}
	value, err := r.value()
	if err == nil && len(r.lines) > 0 {
		err = r.wrong("is indented less than what it follows")
	}
	return value, err
}

type yamlLine struct {
	number, indent int
	text           string
}

// yamlReader has the lines that are left.
type yamlReader struct{ lines []yamlLine }

func (r *yamlReader) wrong(what string) error {
	return fmt.Errorf("line %d %s: %s", r.lines[0].number, what, r.lines[0].text)
}

// value reads a map or a list.
func (r *yamlReader) value() (any, error) {
	if len(r.lines) == 0 {
		return nil, errors.New("a value is missing at the end")
	}
	if strings.HasPrefix(r.lines[0].text, "- ") {
		return r.list(r.lines[0].indent)
	}
	return r.mapping(r.lines[0].indent)
}

func (r *yamlReader) list(indent int) (any, error) {
	var list []any
	for len(r.lines) > 0 && r.lines[0].indent == indent && strings.HasPrefix(r.lines[0].text, "- ") {
		r.lines[0].indent += 2 // the text after the dash begins there
		r.lines[0].text = r.lines[0].text[2:]
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func (r *yamlReader) mapping(indent int) (any, error) {
	m := map[string]any{}
	for len(r.lines) > 0 && r.lines[0].indent == indent && !strings.HasPrefix(r.lines[0].text, "- ") {
		key, rest, ok := strings.Cut(r.lines[0].text, ":")
		if !ok || strings.ContainsAny(key, " \"'") {
			return nil, r.wrong("is not KEY: VALUE")
		}
		if _, twice := m[key]; twice {
			return nil, r.wrong("repeats a key")
		}
		value, err := r.entry(indent, strings.TrimPrefix(rest, " "))
		if err != nil {
			return nil, err
		}
		m[key] = value
	}
	if len(r.lines) > 0 && r.lines[0].indent > indent {
		return nil, r.wrong("is indented more than what it follows")
	}
	return m, nil
}

// entry reads the value behind a key, or below it.
func (r *yamlReader) entry(indent int, text string) (any, error) {
	first := r.lines[0]
	r.lines = r.lines[1:]
	switch {
	case text == "":
		if len(r.lines) == 0 || r.lines[0].indent <= indent {
			return nil, fmt.Errorf("line %d has no value: %s", first.number, first.text)
		}
		return r.value()
	case text == ">-":
		var folded []string
		for len(r.lines) > 0 && r.lines[0].indent > indent {
			folded = append(folded, r.lines[0].text)
			r.lines = r.lines[1:]
		}
		return strings.Join(folded, " "), nil
	case text[0] == '"':
		return strconv.Unquote(text)
	case strings.ContainsAny(text[:1], "{}[]&*!|>'%@`,?") || strings.Contains(text, ": ") || strings.Contains(text, " #"):
		return nil, fmt.Errorf("line %d has to be quoted: %s", first.number, first.text)
	}
	return text, nil
}

func TestReadYAML(t *testing.T) {
	t.Parallel()
	got, err := readYAML(`
# a comment
groups:
  - name: one
    rules:
      - alert: A
        expr: >-
          a > 1
          or b{c="d"} > 2
        for: 5m

      - alert: B
        labels:
          severity: "{{ $value }} \"quoted\""
  - name: two
last: x
`)
	if err != nil {
		t.Fatal(err)
	}
	type m = map[string]any
	want := m{"last": "x", "groups": []any{
		m{"name": "one", "rules": []any{
			m{"alert": "A", "expr": `a > 1 or b{c="d"} > 2`, "for": "5m"},
			m{"alert": "B", "labels": m{"severity": `{{ $value }} "quoted"`}},
		}},
		m{"name": "two"},
	}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("readYAML (-want +got):\n%s", diff)
	}
	for _, wrong := range []string{
		"a", "a: 1\n  b: 2", "a:\n", "a: 1\na: 2", "a: {b: c}", "a: b: c", "a: b # c", "\ta: b", "- a", "  a: 1\nb: 2", "a: \"b", "a:\n- b: 1\n c: 2",
	} {
		if got, err := readYAML(wrong); err == nil {
			t.Errorf("readYAML(%q) = %v, want an error", wrong, got)
		}
	}
}
