package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/ops"
)

var update = flag.Bool("update", false, "write docs/CLI.md")

// TestPage: docs/CLI.md is what the commands, their operations and testdata/cli.md make it. That file
// has what all commands share, notes, and the examples of TestContract. A section about a command
// gets its line, its text, a line for each flag and for each field of its result, and keeps its
// notes and the first of its examples.
func TestPage(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(contractSource)
	if err != nil {
		t.Fatal(err)
	}
	page := page{nodes: map[string]*kong.Node{}}
	for _, node := range leaves(t) {
		page.nodes[strings.TrimPrefix(node.FullPath(), "millrace ")] = node
	}
	rendered := page.render(string(source))
	for words := range page.nodes {
		t.Errorf("%s has no section about %s", contractSource, words)
	}
	if *update {
		if err := os.WriteFile(contractPage, []byte(rendered), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(contractPage); err != nil || string(there) != rendered {
		t.Errorf("%s differs from what the commands say, %v: go test -run TestPage ./cmd/millrace -update", contractPage, err)
	}
}

// page writes docs/CLI.md.
type page struct {
	nodes map[string]*kong.Node // of commands without a section so far, by their words
	out   strings.Builder
}

func (p *page) render(source string) string {
	var section []string
	for line := range strings.Lines(source) {
		if strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "### ") {
			p.section(section)
			section = nil
		}
		section = append(section, line)
	}
	p.section(section)
	return p.out.String()
}

// section writes a section, whose first line is its heading.
func (p *page) section(lines []string) {
	words := strings.TrimSpace(strings.TrimLeft(lines[0], "#"))
	node := p.nodes[words]
	if node == nil {
		p.out.WriteString(strings.Join(lines, ""))
		return
	}
	delete(p.nodes, words)
	p.out.WriteString(lines[0] + "\n")
	fmt.Fprintf(&p.out, "```\n%s\n```\n\n", lineOfCommand(node))
	text, _, _ := strings.Cut(node.Detail, "Examples:\n")
	p.out.WriteString(strings.TrimSpace(node.Help+"\n\n"+text) + "\n\n")
	list := false
	for _, v := range slices.Concat(node.Positional, flagValues(node)) {
		if v.Flag == nil || v.Name != "help" {
			fmt.Fprintf(&p.out, "- `%s` %s\n", shown(v), v.Help)
			list = true
		}
	}
	if list {
		p.out.WriteString("\n")
	}
	notes, example := split(words, lines[1:])
	row, described := ops.ByCommand(words)
	if described && row.Out != nil {
		if fields := fieldsOf(row.Out, "", strings.Join(example, "")); len(fields) > 0 {
			p.out.WriteString("Its result:\n\n" + strings.Join(fields, "") + "\n")
		}
	}
	p.out.WriteString(notes + strings.Join(example, ""))
}

// lineOfCommand returns the line of a command.
func lineOfCommand(node *kong.Node) string {
	parts := []string{node.FullPath()}
	for _, v := range node.Positional {
		parts = append(parts, optional(shown(v), !v.Required))
	}
	for _, v := range flagValues(node) {
		if v.Name != "help" {
			parts = append(parts, optional(shown(v), !v.Required))
		}
	}
	return strings.Join(parts, " ")
}

func optional(text string, yes bool) string {
	if yes {
		return "[" + text + "]"
	}
	return text
}

// shown returns a flag or an argument as a command line has it.
func shown(v *kong.Value) string {
	text := strings.ToUpper(v.Name)
	if v.Flag != nil {
		text = "--" + v.Name
		switch {
		case v.IsBool():
		case v.Enum != "":
			text += " " + strings.ReplaceAll(v.Enum, ",", "|")
		default:
			text += " " + v.Flag.FormatPlaceHolder()
		}
	}
	if v.IsCumulative() {
		text += " ..."
	}
	return text
}

// split returns the notes of a section, and its first example about a command that succeeds.
func split(words string, lines []string) (notes string, example []string) {
	var kept strings.Builder
	fence, taking := "", false
	for _, line := range lines {
		isFence := strings.HasPrefix(line, "```")
		if isFence && fence == "" {
			fence = line
		} else if isFence {
			isFence, line, fence = fence != consoleFence, "```\n", ""
			taking = false
			if !isFence {
				continue
			}
		}
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case fence != consoleFence:
			kept.WriteString(line)
		case isCommand:
			if taking = len(example) == 0 && strings.Contains(command, "millrace "+words) && !strings.Contains(command, "echo $?"); taking {
				example = append(example, line)
			}
		case taking:
			example = append(example, line)
		}
	}
	if notes = strings.TrimSpace(kept.String()); notes != "" {
		notes += "\n\n"
	}
	if len(example) > 0 {
		example = slices.Concat([]string{consoleFence}, example, []string{"```\n\n"})
	}
	return notes, example
}

const consoleFence = "```console\n"

// fieldsOf returns a line for each field of a result that has a text and is in the example.
func fieldsOf(of reflect.Type, path, example string) (lines []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		if of.Kind() == reflect.Slice {
			path += "[]"
		}
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if len(f.Index) > 1 && !promoted(of, f) || name == "" || name == "-" || !strings.Contains(example, `"`+name+`"`) {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		if doc := f.Tag.Get("doc"); doc != "" {
			if values := f.Tag.Get("enum"); values != "" {
				doc += " One of " + strings.ReplaceAll(values, ",", ", ") + "."
			}
			lines = append(lines, fmt.Sprintf("- `%s` %s\n", at, doc))
		}
		lines = append(lines, fieldsOf(f.Type, at, example)...)
	}
	return lines
}

// promoted reports whether a field comes from an embedded struct.
func promoted(of reflect.Type, f reflect.StructField) bool {
	return of.FieldByIndex(f.Index[:len(f.Index)-1]).Anonymous
}
