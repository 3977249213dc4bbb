package main

import (
	"embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

//go:embed completion
var completionTemplates embed.FS

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (*completionCommand) Help() string {
	return `Prints a script with which a shell completes nouns, verbs and flags, and the names of files where a flag takes one. It knows the command line of this version. For names of queues, Icks, leases, namespaces, tenants, schedules and contexts it runs this command, which asks Redis for at most half a second; names that a shell would have to quote are left out.

Examples:

    source <(millrace completion bash)
    source <(millrace completion zsh)
    millrace completion fish | source
    millrace completion bash > /etc/bash_completion.d/millrace`
}

// completionDoc is a script for a shell.
type completionDoc struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (c *completionCommand) Run(k *kong.Context, a *app) error {
	script, err := completionScript(k.Model, c.Shell)
	if err != nil {
		return err
	}
	return a.print(completionDoc{c.Shell, script}, func(w io.Writer) { io.WriteString(w, script) }) //nolint:errcheck // as for every table
}

// completed is the data from which the scripts complete words.
type completed struct {
	Places []place  // the command itself first, and the places below a place behind it
	Paths  []string // of all places but the first, in quotes

	// Flags that take a value, of all commands, and those of them whose value is a
	// file, a folder or a name.
	Valued, Files, Folders, Named []string
}

// place is a noun or a verb.
type place struct {
	Path  string      // "queue dead", and "" for the command itself
	Words []candidate // the nouns or verbs below it, or the values of its argument
	Flags []candidate
}

// candidate is something that can stand on the command line.
type candidate struct {
	Word  string
	Help  string
	Value string // the placeholder for a flag's value; empty if it has none
	Named bool   // the value is a name
}

func completionScript(model *kong.Application, shell string) (string, error) {
	what := completed{}
	what.add(model.Node)
	for _, p := range what.Places {
		for _, f := range p.Flags {
			if f.Value == "" {
				continue
			}
			note := func(list *[]string, is bool) {
				if is && !slices.Contains(*list, f.Word) {
					*list = append(*list, f.Word)
				}
			}
			note(&what.Valued, true)
			note(&what.Files, f.Value == "FILE")
			note(&what.Folders, f.Value == "DIR")
			note(&what.Named, f.Named)
		}
	}
	file := shell + ".tmpl"
	script, err := template.New(file).Funcs(template.FuncMap{
		"join": strings.Join, "quote": quoteFor(shell),
	}).ParseFS(completionTemplates, "completion/"+file)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = script.Execute(&text, what)
	return text.String(), err
}

// add adds a node of the command line, and all nodes below it.
func (c *completed) add(node *kong.Node) {
	_, path, _ := strings.Cut(node.FullPath(), " ")
	p := place{Path: path}
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		p.Words = append(p.Words, candidate{Word: child.Name, Help: brief(child.Help)})
	}
	for _, arg := range node.Positional {
		if arg.Enum == "" {
			continue
		}
		for _, value := range arg.EnumSlice() {
			p.Words = append(p.Words, candidate{Word: value})
		}
	}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			p.Flags = append(p.Flags, candidate{"--" + flag.Name, brief(flag.Help), placeholder(flag), flag.Tag.Get("complete") != ""})
		}
	}
	c.Places = append(c.Places, p)
	if path != "" {
		c.Paths = append(c.Paths, `"`+path+`"`)
	}
	for _, child := range node.Children {
		if !child.Hidden {
			c.add(child)
		}
	}
}

// brief returns the beginning of a help text, up to where it goes into detail.
func brief(help string) string {
	for _, end := range []string{". ", ": ", "; "} {
		help, _, _ = strings.Cut(help, end)
	}
	return strings.TrimSuffix(help, ".")
}

// placeholder stands for a flag's value.
func placeholder(flag *kong.Flag) string {
	if flag.IsBool() {
		return ""
	}
	return flag.FormatPlaceHolder()
}

// quoteFor returns a function that makes one word of its arguments.
func quoteFor(shell string) func(parts ...string) string {
	inside := `'\''`
	if shell == "fish" {
		inside = `\'`
	}
	return func(parts ...string) string {
		return "'" + strings.ReplaceAll(strings.Join(parts, ""), "'", inside) + "'"
	}
}
