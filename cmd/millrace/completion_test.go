package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/test/redistest"
)

// completions are lines, with the cursor at their end, and the words that complete them.
var completions = []struct{ line, want string }{
	{"millrace qu", "queue"},
	{"millrace queue re", "read resize resume retry"},
	{"millrace queue --redis redis://h:6379 dead ", "ls redrive purge groups keep after"},
	{"millrace --redis=redis://h queue pa", "pause"},
	{"millrace --json lease --ttl 5s acq", "acquire"},
	{"millrace queue pause --js", "--json"},
	{"millrace queue resize --per", "--per-tenant"},
	{"millrace queue resize jobs 8 --per", "--per-tenant"},
	{"millrace ick add jobs -5 a --js", "--json"},
	{"millrace queue pause ", "orders orders:17"},
	{"millrace queue nack --delay ", ""},
	{"millrace queue nack --delay --de", "--delay --dead"},
	{"millrace queue pause -- ", ""},
	{"millrace queue pause -- --js", ""},
	{"millrace nonsense qu", ""},
	{"millrace completion ", "bash zsh fish"},
	{"millrace completion bash ", ""},
	{"millrace serve --tls-cert certi", "certificate.pem"},
	{"millrace serve --tls-cert=certi", "certificate.pem"},
	{"millrace fleet agent --archive ", "archive"},

	{"millrace queue stats orders:", "orders:17"},
	{"millrace queue stats --context=o", "one"},
	{"millrace queue browse orders --tenant a", "acme"},
}

// namesBehind are words, and the names that can follow them.
var namesBehind = []struct{ words, want string }{
	{"queue stats", "orders orders:17"},
	{"queue dead", "orders orders:17"},
	{"queue", ""},
	{"queue stats orders", ""},
	{"--context on queue stats", ""},
	{"--context one queue stats", "orders orders:17"},
	{"--context=one --json queue stats", "orders orders:17"},
	{"queue stats --watch", "orders orders:17"},
	{"queue stats --context", "one"},
	{"context rm", "one"},
	{"queue tenant pause orders", "acme globex"},
	{"queue tenant pause none", ""},
	{"schedule show orders", "nightly"},
	{"lease show", "deploy"},
	{"ick stats", "search"},
	{"hash ls", "sessions"},
	{"queue pause --", ""},
}

// completers are programs by which a shell completes $1, with the script in $2.
var completers = map[string]string{
	"bash": `source "$2"; COMP_WORDBREAKS=${COMP_WORDBREAKS//:}; COMP_LINE=$1 COMP_POINT=${#1}; _millrace; printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `source $argv[2]; complete -C $argv[1]`,

	// zsh completes in its line editor. Here its helpers print.
	"zsh": `
		compdef() { : }
		compset() { PREFIX=${PREFIX#*=} }
		_files() { print -rl -- ${PREFIX}*(N${${1:+/}:-.}) }
		compadd() { print -rl -- ${(M)${(P)argv[-1]}:#$PREFIX*} }
		_describe() { print -rl -- ${${(M)${(P)argv[-1]}:#$PREFIX*}%%:*} }
		source $2
		words=(${(z)1}); [[ $1 == *' ' ]] && words+=('')
		CURRENT=$#words PREFIX=$words[-1]
		_millrace`,
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(folder, "certificate.pem"), nil, 0o600))
	must(os.Mkdir(filepath.Join(folder, "archive"), 0o700))
	self, err := os.Executable()
	must(err)
	redistest.WriteScript(t, filepath.Join(folder, "millrace"), "exec env "+asCommand+"=1 '"+self+"' \"$@\"")
	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL(), config: filepath.Join(folder, "archive")}
	for _, name := range []string{"orders", "orders:17", "$(touch pwned)", "a b", "-x", "'"} {
		s.run("queue", "write", "--tenant", "acme", "--body", "x", "--", name)
	}
	s.run("queue", "write", "orders", "--tenant", "globex", "--body", "x")
	s.run("queue", "write", "orders", "--tenant", "\"`x`", "--body", "x")
	s.run("context", "set", "one", "--redis", s.url)
	s.run("schedule", "set", "orders", "nightly", "--every", "24h", "--tenant", "acme", "--body", "x")
	s.run("lease", "acquire", "deploy", "--ttl", "1h")
	s.run("ick", "add", "search", "1", "a")
	s.run("hash", "set", "sessions", "u", "f", "v")
	for _, c := range namesBehind {
		got := s.run(append([]string{"complete-names", "--"}, strings.Fields(c.words)...)...)
		if names := strings.Join(strings.Fields(got.stdout), " "); names != c.want || got.stderr != "" || got.code != 0 {
			t.Errorf("behind %q: %+v, want %q", c.words, got, c.want)
		}
	}
	env := append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "MILLRACE_REDIS_URL="+s.url, "XDG_CONFIG_HOME="+s.config)
	for name, completer := range completers {
		script := filepath.Join(t.TempDir(), name)
		must(os.WriteFile(script, []byte((shell{t: t}).run("completion", name).stdout), 0o600))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Fatalf("%v: internal/repo/scripts/test-deps installs it", err)
			}
			if out, err := exec.Command(name, "-n", script).CombinedOutput(); err != nil {
				t.Fatalf("the script is none: %v\n%s", err, out)
			}
			for _, c := range completions {
				args := []string{"-c", completer, name, c.line, script}
				if name == "fish" {
					args = slices.Delete(args, 2, 3) // has no name of a script in front
				}
				run := exec.Command(name, args...)
				run.Dir, run.Env = folder, env
				out, err := run.CombinedOutput()
				if err != nil && len(out) > 0 {
					t.Errorf("%q: %v\n%s", c.line, err, out)
				}
				want := strings.Fields(c.want)
				slices.Sort(want)
				if diff := cmp.Diff(want, candidatesIn(string(out))); diff != "" {
					t.Errorf("%q (-want +got):\n%s", c.line, diff)
				}
			}
		})
	}
}

// TestCompletionDocument: the printed script equals the one in the document.
func TestCompletionDocument(t *testing.T) {
	t.Parallel()
	s := shell{t: t}
	doc := answer[completionDoc](s, "completion", "bash")
	if doc.Shell != "bash" || doc.Script == "" {
		t.Errorf("document = %+v, want a script for bash", doc)
	}
	s.want(doc.Script, "completion", "bash")
	s.refused(2, "bad_usage", "completion", "tcsh")
	s.refused(2, "bad_usage", "completion")
}

// candidatesIn returns the words that a shell prints, sorted. Fish adds a description behind a
// tab, and puts the flag in front of its value.
func candidatesIn(out string) []string {
	words := []string{}
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		_, value, assigned := strings.Cut(word, "=")
		if assigned {
			word = value
		}
		if word != "" {
			words = append(words, strings.TrimSuffix(word, "/"))
		}
	}
	slices.Sort(words)
	return words
}
