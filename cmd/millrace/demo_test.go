package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace/millrace/cmd/millrace/demo"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	scene := demo.Scene{Name: "ick", OK: true, Figures: []demo.Figure{{Key: "kills", Value: 3}}, Checks: []demo.Check{}, Failures: []string{}}
	tests := []struct {
		name   string
		report demo.Report
		err    error
		code   int
		stdout string // a part of it
		stderr string
	}{
		{"holds", demo.Report{OK: true, Scenes: []demo.Scene{scene}}, nil, 0, `{"ok":true,"server":"","scenes":[{"name":"ick","shows":"","ok":true,"kills":3,`, ""},
		{"does not hold", demo.Report{Scenes: []demo.Scene{scene}}, nil, 1, `{"ok":false,`, ""},
		{"cannot be played", demo.Report{}, errors.New("no server"), 1, "", `{"error":"no server","code":"failed","hint":""}` + "\n"},
	}
	for _, test := range tests {
		var stdout, stderr strings.Builder
		a := &app{env: func(string) string { return "redis://production" }, stdout: &stdout, stderr: &stderr}
		a.play = func(_ context.Context, cfg demo.Config) (demo.Report, error) {
			if cfg.Redis != "redis://given" || cfg.Progress != a.stderr || cfg.Live {
				t.Errorf("%s: config = %+v, want the flag's Redis and progress in lines on stderr", test.name, cfg)
			}
			return test.report, test.err
		}
		code := a.run(t.Context(), []string{"demo", "--json", "--redis", "redis://given"})
		if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || stderr.String() != test.stderr {
			t.Errorf("%s: exits with %d, prints %q, says %q, want %d, %q, %q",
				test.name, code, stdout.String(), stderr.String(), test.code, test.stdout, test.stderr)
		}
		if strings.Count(stdout.String(), "\n") > 1 {
			t.Errorf("%s: prints more than one line:\n%s", test.name, stdout.String())
		}
		if test.stdout == "" && stdout.String() != "" {
			t.Errorf("%s: prints %q, want nothing", test.name, stdout.String())
		}
	}
}

func TestDemoHeedsNoEnvironment(t *testing.T) {
	t.Parallel()
	var stdout strings.Builder
	a := &app{env: func(string) string { return "redis://production" }, stdout: &stdout, stderr: &strings.Builder{}}
	a.play = func(_ context.Context, cfg demo.Config) (demo.Report, error) {
		if cfg.Redis != "" {
			t.Errorf("the demo was to run on %s", cfg.Redis)
		}
		return demo.Report{OK: true}, nil
	}
	if code := a.run(t.Context(), []string{"demo"}); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// The demo's children are the command itself.
func TestDemoChild(t *testing.T) {
	t.Parallel()
	out, err := command(t, "demo-child", "none").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), `no scene "none"`) {
		t.Errorf("millrace demo-child none says %q, %v; want exit code 2 and that there is no such scene", out, err)
	}
}
