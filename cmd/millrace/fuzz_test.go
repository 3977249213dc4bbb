package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

// commandLines are seeds: usual command lines, and slips.
var commandLines = []string{
	"ick\x00add\x00search\x00now\x00doc:17",
	"ick\x00add\x00search\x00-inf\x00-x\x00--json",
	"ick\x00exchange\x00s\x000\x00--token\x001\x00--commit\x00a\x00--commit=--b",
	"queue\x00write\x00orders\x00--tenant\x00{\"base64\":\"/wA=\"}\x00--body\x00{\"base64\":\"?\"}",
	"queue\x00read\x00orders\x00--block\x00-1s\x00--max\x0099999999999999999999",
	"hash\x00set\x00s\x00u\x00f\x00v\x00--ttl\x0030m",
	"lease\x00acquire\x00n\x00--ttl\x00NaN",
	"fleet\x00init\x00--partition\x00,@,",
	"counter\x00add\x00c\x00--\x00-5",
	"--redis\x00\x00--json=maybe\x00--\x00--\x00--",
	"\x00\x00-h\x00--help",
	"serve\x00--listen\x00:::\x00--allow-actions=perhaps",
}

// FuzzCommandLine parses any words. The result is a command line or an error
// that names the fault; no word is lost on the way.
func FuzzCommandLine(f *testing.F) {
	for _, line := range commandLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		var root commands
		a := &app{env: func(string) string { return "" }, stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
		parser, err := newParser(t.Context(), &root, a, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		line, err := arrange(parser.Model, args)
		if err != nil {
			if code := millrace.Code(err); !strings.HasPrefix(code, "bad_") {
				t.Errorf("arranging %q: %v with the code %q", args, err, code)
			}
			return
		}
		if end := slices.Index(args, "--"); end >= 0 {
			words := args[end+1:]
			if kept := line.args[len(line.args)-len(words):]; !slices.Equal(kept, words) {
				t.Errorf("behind -- stood %q, and %q is left of it", words, kept)
			}
		}
		if _, err := parser.Parse(line.args); err != nil {
			if code := millrace.Code(wrongUsage(err, tree().Node)); !strings.HasPrefix(code, "bad_") {
				t.Errorf("parsing %q: %v with the code %q", args, err, code)
			}
		}
	})
}
