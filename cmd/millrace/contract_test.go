package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

// contractPage is made of contractSource.
const (
	contractPage   = "../../docs/CLI.md"
	contractSource = "testdata/cli.md"
)

// example is one command on the page and its output there.
type example struct {
	heading string
	command string
	echo    bool // whether the exit code is the last line
	output  string
}

// TestContract runs every example of testdata/cli.md in order and compares.
func TestContract(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(contractSource)
	if err != nil {
		t.Fatal(err)
	}
	examples := readExamples(string(page))
	if got, least := len(examples), 30; got < least {
		t.Fatalf("%s has %d examples, want at least %d", contractSource, got, least)
	}

	server := redistest.Start(t, redistest.Options{Args: []string{"--slowlog-log-slower-than", "-1"}}) // the machine may be slow
	s := shell{t: t, url: server.URL(), config: t.TempDir()}
	c := contract{shell: s, tokens: make(map[string]string), addrs: strings.NewReplacer()}
	heading := ""
	for _, e := range examples {
		if strings.HasPrefix(e.command, "millrace demo ") {
			continue // package demo plays all scenes, and compares its report with the page
		}
		if e.heading != heading {
			heading = e.heading
			c.prepare(heading)
		}
		c.check(e)
	}
}

// readExamples finds the commands in the page's console blocks.
func readExamples(page string) []example {
	var examples []example
	heading, inBlock := "", false
	for line := range strings.Lines(page) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = strings.HasPrefix(line, "```console")
		case !inBlock && strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(line)
		case inBlock && isCommand:
			command, echo := strings.CutSuffix(strings.TrimSpace(command), "; echo $?")
			examples = append(examples, example{heading: heading, command: command, echo: echo})
		case inBlock:
			examples[len(examples)-1].output += line
		}
	}
	return examples
}

// words splits a command as a shell does, which knows single quotes here.
func words(command string) []string {
	list := shellWord.FindAllString(command, -1)
	for i, word := range list {
		list[i] = quotedPart.ReplaceAllString(word, "$1$2")
	}
	return list
}

var (
	quotedPart = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
	shellWord  = regexp.MustCompile(`(?:` + quotedPart.String() + `|[^\s'"])+`)
)

// piped returns the standard input of a command, if it has printf '%s\n' in front, and
// the command alone.
func piped(command string) (stdin, alone string) {
	feed, fed, ok := strings.Cut(command, " | millrace ")
	if !ok {
		return "", command
	}
	return strings.Join(words(feed)[2:], "\n") + "\n", "millrace " + fed
}

// contract compares the page with the results of its commands.
type contract struct {
	shell
	tokens map[string]string // and ids and receipts, as on the page -> as drawn
	addrs  *strings.Replacer // of servers on the page -> of those that run
}

// prepare sets up the state that a section's examples need and no command can make.
func (c *contract) prepare(heading string) {
	if strings.HasPrefix(heading, "### ick parked ls") {
		c.park("search", "no parser", ick.ConsumeConfig{MaxAttempts: 1})
		c.park("search", "too large", ick.ConsumeConfig{RetryDelay: time.Hour})
	}
	if strings.HasPrefix(heading, "### fleet init") {
		addrs := []string{"127.0.0.1:7000", redistest.Durable(c.t).Addr()}
		for port := 7001; port <= 7004; port++ {
			addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port), member(c.t).Addr())
		}
		c.addrs = strings.NewReplacer(addrs...)
	}
	if heading == "## doctor" { // else its findings depend on how long messages have waited
		for name := range strings.SplitSeq("files log mails orders reports tasks", " ") {
			c.run("queue", "rm", name, "--yes")
		}
	}
	if strings.HasPrefix(heading, "## bench") {
		c.addrs = strings.NewReplacer("redis://127.0.0.1:6379", c.url)
	}
}

func (c *contract) check(e example) {
	c.t.Helper()
	e.output = c.addrs.Replace(e.output)
	stdin, command := piped(c.addrs.Replace(e.command))
	args := words(command)[1:]
	for i, arg := range args {
		if token, ok := c.tokens[arg]; ok {
			args[i] = token
		}
	}
	ctx, interrupt := context.WithCancel(c.t.Context())
	defer interrupt()
	stdout, stderr := watched{until: "\n", then: func() {}}, strings.Builder{}
	if endless.MatchString(command) {
		stdout.then = interrupt // they have an end no other way
	}
	a := &app{env: c.env, stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}
	code := a.run(ctx, args)

	output := stdout.text.String()
	if !progresses.MatchString(e.command) || code != 0 {
		output += stderr.String()
	}
	if e.echo {
		output += fmt.Sprintln(code)
	} else if code != 0 {
		c.t.Errorf("%s: exits with %d, and the page does not say so", e.command, code)
	}
	if strings.Count(stdout.text.String(), "\n") > 1 {
		c.t.Errorf("%s: prints more than one line:\n%s", e.command, stdout.text.String())
	}
	want, got := values(c.t, e.output), values(c.t, output)
	loose := slices.Contains([]string{"bench", "doctor", "version"}, args[0])
	if args[0] == "doctor" && runtime.GOOS != "linux" { // which alone tells of CPUs
		delete(want[0].(map[string]any), "host")
	}
	if diff := c.compare("", want, got, loose); diff != "" {
		c.t.Errorf("%s: %s\npage: %sreal: %s", e.command, diff, e.output, output)
	}
}

// endless finds the commands that go on until they are interrupted.
var endless = regexp.MustCompile(`^millrace (serve|fleet (dev|agent)|queue work) `)

// progresses matches the commands that report their progress on standard error.
var progresses = regexp.MustCompile(`^millrace (bench|.*fleet (init|add|agent|failover|snapshot|rebalance|replica|spare|node|restart|cancel|dev)) `)

// values reads the JSON values of an output, which may be spread over lines.
func values(t *testing.T, output string) []any {
	t.Helper()
	var list []any
	for d := json.NewDecoder(strings.NewReader(output)); d.More(); {
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("not JSON: %v:\n%s", err, output)
		}
		list = append(list, v)
	}
	return list
}

// passing are fields whose values no page can know.
var passing = []string{
	"oldest_age_s", "oldest_age_ms", "oldest_check_ms", "remaining_ms", "pickup_delay_ms", "pid", "memory_bytes", "busy", "lag_bytes", "directory", "took_ms", "age_ms",
	"median_pause_ms", "longest_pause_ms", "server", "url", "plan", "from",
	"beat", "behind", "text", "agent", "until",
}

// compare says how got differs from want: in names and types always, and in
// values unless the page cannot know them.
func (c *contract) compare(path string, want, got any, loose bool) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if names := slices.Sorted(maps.Keys(want)); !ok || !slices.Equal(names, slices.Sorted(maps.Keys(got))) {
			return fmt.Sprintf("%s has not the fields %v", path, names)
		}
		for name := range want {
			loose := loose || slices.Contains(passing, name)
			if name == "ttl_ms" { // -1 and -2 have a meaning, and any other time passes
				loose = !strings.HasPrefix(fmt.Sprint(want[name]), "-") && !strings.HasPrefix(fmt.Sprint(got[name]), "-")
			}
			if name == "bytes" && fmt.Sprint(want[name]) != "0" && fmt.Sprint(got[name]) != "0" {
				loose = true // how a server writes keys down is its own affair
			}
			if diff := c.compare(path+"."+name, want[name], got[name], loose); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return fmt.Sprintf("%s is not a list of %d", path, len(want))
		}
		for i := range want {
			if diff := c.compare(fmt.Sprintf("%s[%d]", path, i), want[i], got[i], loose); diff != "" {
				return diff
			}
		}
		return ""
	}
	if wantType, gotType := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); wantType != gotType {
		return fmt.Sprintf("%s is a %s, not a %s", path, gotType, wantType)
	}
	if shown, ok := want.(string); ok && drawn.MatchString(path) && shown != "" {
		return c.learn(shown, fmt.Sprint(got))
	}
	if !loose && !ofTheMoment(want) && steady(want) != steady(got) {
		return fmt.Sprintf("%s is %v, not %v", path, got, want)
	}
	return ""
}

// drawn is where values are that are others each time, and that commands take.
var drawn = regexp.MustCompile(`\.(token|id|ids\[\d+\]|receipt)$`)

// learn takes in which token, id or receipt the one on the page stands for.
func (c *contract) learn(shown, got string) string {
	if known, ok := c.tokens[shown]; got == "" || ok && got != known {
		return fmt.Sprintf("%s is %q, and was %q", shown, got, known)
	}
	c.tokens[shown] = got
	return ""
}

var remainder = regexp.MustCompile(`held for another [0-9.hmµs]+`)

// steady returns a value without for how long a lease is held, which no page
// can know.
func steady(v any) any {
	if text, ok := v.(string); ok {
		return remainder.ReplaceAllString(text, "held for a while")
	}
	return v
}

// ofTheMoment reports whether a value on the page stands for one of the time
// when it was written.
func ofTheMoment(v any) bool {
	text := fmt.Sprint(v)
	return strings.HasPrefix(text, "1795226400") || strings.HasPrefix(text, "2026-11-21T")
}
