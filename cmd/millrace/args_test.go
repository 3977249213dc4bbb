package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
)

// parse reads a command line and returns the values of the command it names.
func parse(t *testing.T, args []string) (commands, error) {
	t.Helper()
	var root commands
	parser := testParser(t, &root)
	line, err := arrange(parser.Model, args)
	if err == nil {
		_, err = parser.Parse(line.args)
	}
	return root, err
}

func testParser(t *testing.T, root *commands) *kong.Kong {
	t.Helper()
	parser, err := newParser(t.Context(), root, &app{stdout: io.Discard, stderr: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// leaves returns the commands that do something.
func leaves(t *testing.T) []*kong.Node {
	t.Helper()
	return testParser(t, &commands{}).Model.Leaves(true)
}

func TestAddArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args  string // separated by blanks, _ is an empty one
		words string
		json  bool
	}{
		{args: "ick add K -5 a", words: "-5 a"},
		{args: "ick add K -5 a -1.5 b", words: "-5 a -1.5 b"},
		{args: "ick add K -inf a +inf b", words: "-inf a +inf b"},
		{args: "ick add K -1e-9 a", words: "-1e-9 a"},
		{args: "ick add K 5 -a", words: "5 -a"},
		{args: "ick add K 5 -", words: "5 -"},
		{args: "ick add K 5 -h=x", words: "5 -h=x"},
		{args: "ick add K 5 _", words: "5 "},
		{args: "ick add K 5 ick", words: "5 ick"},
		{args: "ick add K 5 a,b", words: "5 a,b"},
		{args: "--json ick add K -5 a", words: "-5 a", json: true},
		{args: "ick --json add K -5 a", words: "-5 a", json: true},
		{args: "ick add --json K -5 a", words: "-5 a", json: true},
		{args: "ick add K --json -5 a", words: "-5 a", json: true},
		{args: "ick add K -5 --json a", words: "-5 a", json: true},
		{args: "ick add K -5 a --json", words: "-5 a", json: true},
		{args: "ick add K -5 a --json=false", words: "-5 a"},
		{args: "ick add K 5 -- --json", words: "5 --json"},
		{args: "ick add -- K 5 --json", words: "5 --json"},
		{args: "ick add K 5 -- --", words: "5 --"},
		{args: "ick add K --json 5 -- a -1 --b", words: "5 a -1 --b", json: true},
	}
	for _, test := range tests {
		args := strings.Split(test.args, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", "")
		}
		root, err := parse(t, args)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		add := root.Ick.Add
		got := strings.Join(append([]string{string(add.Score), string(add.Member)}, jsontype.Strings(add.More)...), " ")
		if got != test.words || root.JSON != test.json || add.Name != "K" {
			t.Errorf("%s: name %q, pairs %q, json %t, want name \"K\", pairs %q, json %t",
				test.args, add.Name, got, root.JSON, test.words, test.json)
		}
	}
}

func TestFlagValues(t *testing.T) {
	t.Parallel()
	root, err := parse(t, strings.Split(
		"ick exchange K 7 --commit a,b --settle 1.5s --commit -5 --redis redis://h:1 --commit=--json --token 12 --commit=", " "))
	if err != nil {
		t.Fatal(err)
	}
	x := root.Ick.Exchange
	if diff := cmp.Diff([]string{"a,b", "-5", "--json", ""}, jsontype.Strings(x.Members)); diff != "" {
		t.Errorf("--commit (-want +got):\n%s", diff)
	}
	if root.JSON || root.Redis != "redis://h:1" || x.Token != "12" || x.Max != 7 || x.Settle.String() != "1.5s" {
		t.Errorf("flags = json %t, redis %q, token %q, n %d, settle %s", root.JSON, root.Redis, x.Token, x.Max, x.Settle)
	}
}

func TestDefaultVerb(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"ick parked K", "ick parked ls K", "--json ick parked K", "ick parked K --json", "ick parked -- K"} {
		root, err := parse(t, strings.Fields(args))
		if err != nil || root.Ick.Parked.Ls.Name != "K" {
			t.Errorf("%s: name %q, %v, want K", args, root.Ick.Parked.Ls.Name, err)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args, message string
	}{
		{"", "expected one of"},
		{"ick", "expected one of"},
		{"ick bogus", "unexpected argument bogus"},
		{"ick add", "expected"},
		{"ick add K", "expected"},
		{"ick add K 5", "expected"},
		{"ick add K 5 --a", "unknown flag --a"},
		{"ick add K 5 a --redis", "--redis needs a value"},
		{"ick exchange K 5 --token --commit a", "--token needs a value"},
		{"ick reserve K", "expected"},
		{"ick reserve K many", "int"},
		{"ick reserve K 1.5", "int"},
		{"ick reserve K 99999999999999999999", "int"},
		{"ick reserve K 1 2", "unexpected argument 2"},
		{"ick reserve K 1 --settle soon", "duration"},
		{"ick ls K", "unexpected argument K"},
		{`ick stats {"base64":"?"}`, "not base64"},
	}
	for _, test := range tests {
		_, err := parse(t, strings.Fields(test.args))
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.message)
		}
		if err != nil && !strings.HasPrefix(millrace.Code(wrongUsage(err, tree().Node)), "bad_") {
			t.Errorf("%q: code %q, want one that begins with bad_", test.args, millrace.Code(wrongUsage(err, tree().Node)))
		}
	}
}
