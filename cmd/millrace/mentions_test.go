package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCommandsInDocs parses each command that docs, pages, alerts, units, errors and comments name, by the
// command's own tree. What a test says and what is history are left out.
//
//	where                                    what is parsed
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
			if name == "testdata" || name == "decisions" || name == ".git" || name == "node_modules" {
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

// TestMentionsAreChecked: the test above fails for what the command would refuse.
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

// mention is one command as a file names it.
type mention struct {
	text  string   // as it is there
	words []string // behind "millrace"
	form  form
}

// form is how much of a command a mention has.
type form int

const (
	whole    form = iota // all of it
	span                 // all of it, or noun and verb
	synopsis             // noun, verb and flags, and arguments that are described
)

// mentionsIn finds the commands in a file, by its kind.
func mentionsIn(path string) ([]mention, error) {
	base := filepath.Base(path)
	kind := filepath.Ext(base)
	if !slices.Contains([]string{".md", ".go", ".html", ".tmpl", ".yaml", ".service", ".conf", ".json", ".rb", ".py"}, kind) && base != "Dockerfile" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil || kind == ".go" && !bytes.Contains(text, []byte("millrace ")) && !bytes.Contains(text, []byte(`"millrace"`)) && !bytes.Contains(text, []byte("Command:")) {
		return nil, err
	}
	switch kind {
	case ".md":
		return inMarkdown(string(text)), nil
	case ".go":
		return inGo(path, text)
	case ".html":
		return inHTML(string(text)), nil
	}
	return inConfig(string(text)), nil
}

// inMarkdown finds commands in blocks, code spans, headings that are synopses, and sentences.
func inMarkdown(text string) (found []mention) {
	var prose strings.Builder
	var block strings.Builder
	language, fenced := "", false
	for line := range strings.Lines(text) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		heading, isHeading := strings.CutPrefix(line, "### ")
		switch {
		case isFence && !fenced:
			language, fenced = fence, true
		case isFence:
			switch language {
			case "console", "sh", "bash", "yaml":
				found = append(found, inShell(block.String(), whole)...)
			}
			block.Reset()
			fenced = false
		case fenced && language == "console":
			command, isCommand := strings.CutPrefix(line, "$ ")
			switch {
			case strings.HasSuffix(command, "; echo $?\n"): // it may be one that is refused
				found = append(found, inShell(command, synopsis)...)
			case isCommand || strings.HasSuffix(block.String(), "\\\n"):
				block.WriteString(command)
			}
		case fenced:
			block.WriteString(line)
		case isHeading && regexp.MustCompile(`^[a-z]+ [a-z\[\]-]+ .*[A-Z]`).MatchString(heading):
			found = append(found, mention{strings.TrimSpace(heading), strings.Fields(heading), synopsis})
		default:
			prose.WriteString(line)
		}
	}
	return append(found, inProse(prose.String())...)
}

var (
	tags     = regexp.MustCompile(`(?s)<(?:code|pre)[^>]*>(.*?)</(?:code|pre)>`)
	actions  = regexp.MustCompile(`\{\{if [^}]*\}\}.*?\{\{else\}\}(.*?)\{\{end\}\}|\{\{[^}]*\}\}`)
	marks    = regexp.MustCompile(`<[^>]*>|\{\{[^}]*\}\}`)
	entities = strings.NewReplacer("&quot;", `"`, "&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// inHTML finds commands in a page's template.
func inHTML(text string) (found []mention) {
	for _, match := range tags.FindAllStringSubmatch(text, -1) {
		form := span
		if strings.HasPrefix(match[0], "<pre") {
			form = whole
		}
		found = append(found, inShell(entities.Replace(actions.ReplaceAllString(match[1], "X$1")), form)...)
	}
	return append(found, sentences(marks.ReplaceAllString(tags.ReplaceAllString(text, " "), "\n"))...)
}

// inConfig finds commands in units, alerts and the like: in lists that are arguments, in lines that
// run the command, and in sentences.
func inConfig(text string) (found []mention) {
	lists := regexp.MustCompile(`(?m)^\s*(?:args:|CMD) \[(.*)\]$`)
	runs := regexp.MustCompile(`(?m)^ExecStart=((?:.*\\\n)*.*)`)
	for _, match := range lists.FindAllStringSubmatch(text, -1) {
		words := strings.Split(match[1], ",")
		for i, word := range words {
			words[i] = strings.Trim(word, ` "`)
		}
		found = append(found, mention{match[1], words, whole})
	}
	for _, match := range runs.FindAllStringSubmatch(text, -1) {
		found = append(found, inShell(match[1], whole)...)
	}
	for line := range strings.Lines(runs.ReplaceAllString(text, "")) {
		found = append(found, inProse(strings.TrimLeft(line, "# "))...)
	}
	return found
}

// inGo finds commands in the strings of a file, joined where the program joins them, and in its
// comments.
func inGo(path string, source []byte) (found []mention, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range file.Comments {
		found = append(found, inProse(group.Text())...)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.KeyValueExpr: // of a notice
			text, ok := joined(node.Value)
			if key, isName := node.Key.(*ast.Ident); ok && isName && key.Name == "Command" {
				found = append(found, mention{text, strings.Fields(text), whole})
			}
		case *ast.CompositeLit:
			found = append(found, inList(node.Elts)...)
		case *ast.BinaryExpr, *ast.BasicLit:
			if text, ok := joined(node.(ast.Expr)); ok {
				found = append(found, inText(text)...)
				return false
			}
		}
		return true
	})
	return found, nil
}

// inList finds a command that is a list of words.
func inList(elements []ast.Expr) []mention {
	var words []string
	for _, element := range elements {
		word, _ := joined(element)
		words = append(words, cmp.Or(word, "X"))
	}
	if len(words) < 2 || words[0] != "millrace" {
		return nil
	}
	return []mention{{strings.Join(words, " "), words[1:], span}}
}

var formatted = regexp.MustCompile(`%[-+.0-9]*[a-z]`)

// joined returns the text of an expression, with X in place of what the program puts in.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return formatted.ReplaceAllString(text, "X"), err == nil
	case *ast.BinaryExpr:
		left, isLeft := joined(e.X)
		right, isRight := joined(e.Y)
		if e.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "X"
		}
		if !isRight {
			right = "X"
		}
		return left + right, true
	}
	return "", false
}

// inText finds commands in a string: in lines that are examples, and in sentences.
func inText(text string) (found []mention) {
	var prose strings.Builder
	for line := range strings.Lines(text) {
		if example, ok := strings.CutPrefix(line, "    "); ok && strings.Contains(example, "millrace ") {
			found = append(found, inShell(example, whole)...)
		} else {
			prose.WriteString(line)
		}
	}
	return append(found, inProse(prose.String())...)
}

// inProse finds commands in code spans and in sentences.
func inProse(text string) (found []mention) {
	if !strings.Contains(text, "millrace") {
		return nil
	}
	for _, match := range spans.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(match[1], "millrace ") || strings.Contains(match[1], " millrace ") {
			command := strings.ReplaceAll(match[1], `\|`, "|") // as a table has it
			found = append(found, inShell(strings.Join(strings.Fields(command), " "), span)...)
		}
	}
	return append(found, sentences(spans.ReplaceAllString(text, " "))...)
}

var (
	spans  = regexp.MustCompile("(?s)`([^`]*)`")
	begins = regexp.MustCompile(`(?:^|[\s("“])millrace\s`)
	quoted = regexp.MustCompile(`"[^"]*"\S*|\S+`)
	value  = regexp.MustCompile(`^([A-Z][A-Z0-9:_/.-]*|-?[0-9]\S*|".*)$`)
	pause  = ".,;:)?!”"
)

// sentences finds commands between words: noun and verb, and the flags, placeholders, numbers and
// quotations that follow.
func sentences(text string) (found []mention) {
	parts := begins.Split(text, -1)[1:]
	if len(parts) == 0 {
		return nil
	}
	valued, _ := valuedFlags(tree())
	for _, part := range parts {
		node, words, takes := tree().Node, []string(nil), false
		for _, raw := range quoted.FindAllString(part[:min(len(part), 300)], -1) {
			word := strings.TrimRight(raw, pause)
			child := subcommand(node, word)
			isFlag := strings.HasPrefix(word, "--")
			if child == nil && !takes && !isFlag && !value.MatchString(word) && (len(words) == 0 || len(node.Children) == 0) {
				break // the sentence goes on
			}
			words, takes = append(words, strings.Trim(word, `"`)), isFlag && valued[word]
			if child == nil && !isFlag && len(node.Children) > 0 && node.DefaultCmd == nil {
				break // no verb
			}
			node = cmp.Or(child, node)
			if word != raw {
				break
			}
		}
		if len(words) > 0 {
			found = append(found, mention{"millrace " + strings.Join(words, " "), words, span})
		}
	}
	return found
}

// inShell finds commands in lines of a shell. Where the command is not the first word, as behind
// xargs, a noun must follow.
func inShell(text string, form form) (found []mention) {
	for _, words := range simpleCommands(text) {
		at := slices.IndexFunc(words, func(word string) bool {
			word = word[strings.LastIndexByte(word, '=')+1:]
			return word == "millrace" || strings.HasSuffix(word, "/millrace")
		})
		if at < 0 {
			continue
		}
		line, err := arrange(tree(), words[at+1:])
		first := !slices.ContainsFunc(words[:at], func(word string) bool { return !strings.Contains(word, "=") })
		if !first && (err != nil || line.command == tree().Node) {
			continue // a file, a service, a folder of that name
		}
		m := mention{strings.Join(words[at:], " "), words[at+1:], form}
		if slices.Contains(words[:at], "xargs") {
			m.words = append(m.words, "...")
		}
		found = append(found, m)
	}
	return found
}

// simpleCommands splits lines of a shell into commands, and these into words.
func simpleCommands(text string) (commands [][]string) {
	var words []string
	var word strings.Builder
	begun, dropped := false, false // the word; a word that names a file
	endWord := func() {
		if begun && !dropped {
			words = append(words, word.String())
		}
		if begun {
			dropped = false
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, dropped = nil, false
	}
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
				begun = true
			}
		case quote == c:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == '#' && !begun:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == ' ' || c == '\t':
			endWord()
		case c == '>' || c == '<':
			if strings.Trim(word.String(), "0123456789") == "" {
				word.Reset() // the number of a file
				begun = false
			}
			endWord()
			dropped = true
		case c == '&' && dropped: // >&2
			word.WriteByte(c)
			begun = true
		case strings.IndexByte(";&|()`\n", c) >= 0:
			endCommand()
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	endCommand()
	return commands
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

// check returns what the command would refuse of a mention.
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

// forget has a parser not remember what an earlier line has set.
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

// described returns the words without what describes them, and whether some are left out.
func (m mention) described() (words []string, elided bool) {
	for _, word := range m.words {
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
