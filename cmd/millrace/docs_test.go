package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCommandsInDocs parses each command that docs, pages, alerts, units, errors and comments
// name, by the command's own tree. Texts of tests and history are left out.
//
//	where                                    parsed as
//	blocks, lines of help                    commands of a shell: nouns, formatted, flags, all arguments
//	`millrace ...` and <code>, <pre>         the same; noun and verb alone are a name
//	sentences                                noun, verb, and the flags and PLACEHOLDERS that follow
func TestCommandsInDocs(t *testing.T) {
	t.Parallel()
	found := map[string]int{} // by the kind of file
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir():
			if name == "testdata" || name == "decisions" || name == ".git" || path == "../../build" {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(name, "_test.go"), name == "CHANGELOG.md":
			return nil
		}
		mentions, err := mentionsIn(path)
		for _, m := range mentions {
			found[filepath.Ext(path)]++
			if err := m.check(); err != nil {
				t.Errorf("%s: %q: %v", strings.TrimPrefix(filepath.ToSlash(path), "../../"), m.text, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, least := range map[string]int{".md": 250, ".go": 250, ".html": 10, ".yaml": 8, ".service": 2, ".conf": 1, "": 2} {
		if found[kind] < least {
			t.Errorf("%d commands in files %q, want at least %d", found[kind], kind, least)
		}
	}
}

// TestMentionsAreChecked: the test above fails for commands that would be refused.
func TestMentionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, text, wrong string }{
		{".md", "`millrace queue stats Q`", ""},
		{".md", "`millrace queue weight Q TENANT 4`", "unknown command queue weight"},
		{".md", "`millrace quee`", "unknown command quee"},
		{".md", "run millrace queue weight, then wait", "unknown command queue weight"},
		{".md", "`millrace queue stats Q --wach`", "unknown flag --wach"},
		{".md", "`millrace queue pause`", ""},
		{".md", "```console\n$ millrace queue pause\n```", `expected "<name>"`},
		{".md", "`millrace queue extend Q RECEIPT`", `expected "<duration>"`},
		{".md", "`millrace queue extend Q ...`", ""},
		{".md", "`millrace queue extend Q ... --no`", "unknown flag --no"},
		{".md", "`millrace queue pause Q R`", "unexpected argument R"},
		{".md", "`millrace queue extend Q RECEIPT DURATION`", ""},
		{".md", "`millrace lease acquire NAME`", "missing flags: --ttl=DURATION"},
		{".md", "```sh\nX=$(A=1 millrace lease acquire n --ttl 1m \\\n  --wat | jq -r .token)  # millrace no\n```", "unknown flag --wat"},
		{".md", "```console\n$ printf x | millrace queue write q --tenant a > f; echo $?\n```", ""},
		{".md", "```console\nmillrace queue weight\n```", ""}, // it is output
		{".md", "```sh\nmillrace fleet spare add h:{1..3}@n\n```", ""},
		{".md", "```sh\nmillrace fleet spare add h:{x..3}@n\n```", `<server> ...: "h:{x..3}" is no HOST:PORT: write HOST:PORT[@NODE]`},
		{".md", "### queue read NAME [--visibility DURATION] [--block DURATION | --off]", "unknown flag --off"},
		{".md", "### queue weight NAME", "unknown command queue weight"},
		{".html", "<p><code>millrace queue weight</code>", "unknown command queue weight"},
		{".html", "<pre>millrace lease show</pre>", `expected "<name>"`},
		{".yaml", "  action: Run millrace queue weight.", "unknown command queue weight"},
		{".service", "ExecStart=/usr/local/bin/millrace serve --lissten 127.0.0.1:8420", "unknown flag --lissten"},
		{".go", "package p\n\nvar e = E{Hint: \"Look: millrace queue \" + \"weight Q.\"}", "unknown command queue weight"},
		{".go", "package p\n\nvar e = fmt.Sprintf(\"millrace queue tenant pause %s %s --no\", q, t)", "unknown flag --no"},
		{".go", "package p\n\nconst help = `Examples:\n\n    millrace lease show`", `expected "<name>"`},
		{".go", "package p\n\nvar e = \"see millrace queue extend Q.\"", `expected "<receipt> <duration>"`},
		{".go", "package p\n\nvar e = notice{Command: \"queue weight \" + q}", "unknown command queue weight"},
		{".go", "// It is as `millrace queue weight`.\npackage p", "unknown command queue weight"},
		{".go", "package p\n\nvar e = []string{\"millrace\", \"queue\", \"weight\"}", "unknown command queue weight"},
	} {
		path := filepath.Join(t.TempDir(), "page"+c.kind)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		mentions, err := mentionsIn(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mentions {
			err = cmp.Or(err, m.check())
		}
		if got := fmt.Sprint(cmp.Or(err, errors.New(""))); got != c.wrong && (c.wrong == "" || !strings.HasPrefix(got, c.wrong)) {
			t.Errorf("%s: %q: got %q, want %q", c.kind, c.text, got, c.wrong)
		}
	}
}

// ownParser is the command's own.
var ownParser = sync.OnceValue(func() *kong.Kong {
	parser, err := newParser(context.Background(), &commands{}, &app{stdout: io.Discard, stderr: io.Discard}, func(int) {})
	if err != nil {
		panic(err)
	}
	return parser
})

func tree() *kong.Application { return ownParser().Model }

// parsing is held while ownParser parses.
var parsing sync.Mutex

// check returns the error of the command for a mention that it would refuse.
func (m mention) check() error {
	words, elided := m.described()
	if len(words) == 0 || words[0] == "X" {
		return nil // the program, or the reader, puts in the command
	}
	line, err := arrange(tree(), words)
	if err != nil {
		return err
	}
	at := slices.Index(line.args, "--")
	rest := line.args[at+1:]
	node := line.command
	if len(node.Children) > 0 && node.DefaultCmd == nil && len(rest) > 0 {
		return fmt.Errorf("unknown command %s", strings.TrimPrefix(node.FullPath()+" "+rest[0], "millrace "))
	}
	flags := node.AllFlags(true)
	if node.DefaultCmd != nil {
		flags = append(flags, node.DefaultCmd.AllFlags(true)...)
	}
	for _, arg := range line.args[:at] {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		known := slices.ContainsFunc(flags, func(group []*kong.Flag) bool {
			return slices.ContainsFunc(group, func(flag *kong.Flag) bool { return flag.Name == name })
		})
		if isFlag && !known {
			return fmt.Errorf("unknown flag --%s", name)
		}
	}
	path := len(strings.Fields(node.FullPath())) - 1
	if elided || m.form == synopsis || m.form == span && at == path && len(rest) == 0 {
		return nil
	}
	for _, number := range []string{"", "1", "1m"} { // in place of a inCapitals
		args := slices.Clone(words)
		for i, word := range args {
			if number != "" && inCapitals.MatchString(word) {
				args[i] = number
			}
		}
		tried, wrong := arrange(tree(), args)
		if wrong == nil {
			parsing.Lock()
			forget(tree().Node)
			_, wrong = ownParser().Parse(tried.args)
			parsing.Unlock()
		}
		if wrong == nil {
			return nil
		}
		err = cmp.Or(err, wrong)
	}
	return err
}

// forget resets the flags that a parser has from an earlier line.
func forget(node *kong.Node) {
	for _, flag := range node.Flags {
		flag.Set = false
	}
	for _, argument := range node.Positional {
		argument.Set = false
	}
	for _, child := range node.Children {
		forget(child)
	}
}

var inCapitals = regexp.MustCompile(`^\$?[A-Z][A-Z_]*$`)

// numbers are words in a shell that differ in a number.
var numbers = regexp.MustCompile(`\{([0-9]+)\.\.[0-9]+\}`)

// described returns the words without their descriptions, and whether some are left out.
func (m mention) described() (words []string, elided bool) {
	for _, word := range m.words {
		word = numbers.ReplaceAllString(word, "$1") // the first of the words that a shell makes of it
		if m.form == synopsis {
			word = strings.Trim(word, "[]()|")
		}
		bare := strings.Trim(word, "[]")
		switch {
		case word == "--help" || word == "-h":
			elided = true
		case strings.HasSuffix(word, "...") || strings.HasSuffix(word, "…"):
			elided = true
		case bare != word && strings.HasPrefix(bare, "--"):
			words, elided = append(words, bare), true
		case word != "" || m.form != synopsis:
			words = append(words, word)
		}
	}
	return words, elided
}
