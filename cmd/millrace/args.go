package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// line is a command line, arranged so that kong takes it as it is meant.
type line struct {
	args    []string
	command *kong.Node // the deepest command named, for hints
	json    bool       // whether --json was asked for, even if the rest is wrong
}

// arrange tells flags from arguments. Kong takes every word that begins with a
// hyphen for a flag, but -5 is a score, -inf is one too, and a member may be
// anything. Here only words that begin with two hyphens are flags, and -h; they
// may stand anywhere, and a bare -- ends them. The flags go to the front, and
// arguments go behind a bare --, where kong looks for no flags.
func arrange(model *kong.Application, args []string) (line, error) {
	valued, bare := valuedFlags(model)
	l := line{command: model.Node}
	var path, flags, words []string
	var wrong error
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "--") && arg != "-h" {
			if child := subcommand(l.command, arg); child != nil && len(words) == 0 {
				l.command, path = child, append(path, arg)
			} else {
				words = append(words, arg)
			}
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		switch {
		case name == "--json":
			l.json = !given || value == "true"
		case bare[name] != "" && !given:
			arg += "=" + bare[name]
		case !valued[name] || given:
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			arg += "=" + args[i]
		case wrong == nil:
			wrong = needsValue(name)
		}
		flags = append(flags, arg)
	}
	l.args = append(append(path, flags...), "--")
	l.args = append(l.args, words...)
	return l, wrong
}

func needsValue(flag string) error {
	return errUsage.Errorf("%s needs a value", flag).WithHint("If the value begins with two hyphens, write " + flag + "=VALUE.")
}

// valuedFlags returns the flags of all commands that take a value, and the values of those
// that need none.
func valuedFlags(model *kong.Application) (valued map[string]bool, bare map[string]string) {
	valued, bare = make(map[string]bool), make(map[string]string)
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			valued["--"+flag.Name] = !flag.IsBool()
			bare["--"+flag.Name] = flag.Tag.Get("bare")
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(model.Node)
	return valued, bare
}

func subcommand(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}
