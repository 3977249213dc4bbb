package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// contextsDoc is the document of context ls.
type contextsDoc struct {
	Contexts []contextDoc
	Server   string
}

// TestContexts names servers in all ways, and the first in the order of precedence counts.
func TestContexts(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t, redistest.Options{}).URL(), redistest.Start(t, redistest.Options{}).URL()
	s := shell{t: t, config: t.TempDir()}
	if got := answer[contextsDoc](s, "context", "ls"); len(got.Contexts) != 0 || got.Server != "" {
		t.Errorf("at first there are %+v", got)
	}
	s.refused(2, "bad_url", "queue", "ls")
	s.run("context", "set", "one", "--redis", one)
	s.run("context", "set", "two", "--redis", two)
	s.refused(2, "bad_url", "queue", "ls") // none is used
	s.run("queue", "write", "q1", "--tenant", "a", "--body", "x", "--context", "one")
	s.want("two is used\n", "context", "use", "two")
	s.run("queue", "write", "q2", "--tenant", "a", "--body", "x")
	if got := answer[contextsDoc](s, "context", "ls"); len(got.Contexts) != 2 || got.Contexts[0].Used || !got.Contexts[1].Used || got.Server != two {
		t.Errorf("there are %+v", got)
	}
	env := s
	env.url = one
	for want, list := range map[string]outcome{
		"q1\n":     env.run("queue", "ls"),
		"q2\n":     s.run("queue", "ls"),
		"q2\n\x00": env.run("queue", "ls", "--context", "two"),
		"q1\n\x00": s.run("queue", "ls", "--redis", one),
	} {
		if want := strings.TrimSuffix(want, "\x00"); list.code != 0 || list.stdout != want {
			t.Errorf("queue ls = %+v, want %q", list, want)
		}
	}
	s.refused(2, "bad_usage", "queue", "ls", "--redis", one, "--context", "two")
	s.refused(2, "bad_context", "queue", "ls", "--context", "three")
	if got := s.feed("n\n", "schedule", "rm", "q2", "x").stderr; strings.Contains(got, "[y/N]") && !strings.Contains(got, "The context is two.") {
		t.Errorf("it asks %q", got)
	}
	s.want("two is removed\n", "context", "rm", "two")
	s.refused(2, "bad_url", "queue", "ls")
	s.refused(2, "bad_context", "context", "rm", "two")
	s.refused(2, "bad_context", "context", "use", "two")
	s.refused(2, "bad_context", "context", "set", "a b", "--redis", one)
	s.refused(2, "bad_usage", "context", "set", "b")
	s.refused(2, "bad_url", "context", "set", "b", "--redis", "http://h")
	s.refused(2, "bad_url", "context", "set", "b", "--redis", "fleet://")
	s.want("no context is used\n", "context", "use")
	for url, want := range map[string]string{
		"etcd://u:p@a:1,b:2/f?x=p": "etcd://a:1,b:2/f", "fleet://u:p@a:1,b:2": "fleet://a:1,b:2", "redis://u:p@a:1,redis://:p@b:2": "redis://u:xxxxx@a:1,redis://:xxxxx@b:2",
	} {
		if got := redacted(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

// TestContextsKeepPasswords from others, and out of sight.
func TestContextsKeepPasswords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--requirepass", "s3cret"}})
	dir := t.TempDir()
	s, path, secret := shell{t: t, config: dir}, filepath.Join(dir, "millrace", "config.json"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused(2, "bad_config", "context", "set", "b", "--redis", "redis://"+server.Addr(), "--password-file", filepath.Join(dir, "none"))
	s.run("context", "set", "a", "--redis", "redis://:s3cret@"+server.Addr())
	s.run("context", "set", "b", "--redis", "redis://"+server.Addr(), "--password-file", secret)
	for _, name := range []string{"a", "b"} {
		if got := s.run("queue", "ls", "--context", name); got.code != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := s.run("context", "ls", "--json").stdout; strings.Contains(got, "s3cret") || !strings.Contains(got, server.Addr()) {
		t.Errorf("context ls prints %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if f := s.refused(2, "bad_config", "queue", "ls", "--context", "b"); !strings.Contains(f.Hint, "chmod 600") {
		t.Errorf("hint %q", f.Hint)
	}
	if err := os.WriteFile(path, []byte(`{"contexts":{},"more":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused(2, "bad_config", "queue", "ls")
	s.refused(2, "bad_config", "serve")
	if got := s.run("version"); got.code != 0 {
		t.Errorf("version without a good file: %+v", got)
	}
}
