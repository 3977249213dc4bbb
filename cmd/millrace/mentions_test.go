package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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

// joined returns the text of an expression, with X in place of values of the program.
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
