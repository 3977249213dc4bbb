package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/chaos"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	scene := chaos.Result{Name: "ick", OK: true}
	scene.Figure("kills", "", chaos.N("kills", 3))
	tests := []struct {
		name   string
		report chaos.Report
		err    error
		code   int
		stdout string // a part of it
		stderr string
	}{
		{"holds", chaos.Report{OK: true, Scenes: []chaos.Result{scene}}, nil, 0, `{"ok":true,"server":"","scenes":[{"name":"ick","shows":"","ok":true,"kills":3,`, ""},
		{"does not hold", chaos.Report{Scenes: []chaos.Result{scene}}, nil, 1, `{"ok":false,`, ""},
		{"cannot be played", chaos.Report{}, errors.New("no server"), 1, "", `{"error":"no server","code":"failed","hint":""}` + "\n"},
	}
	for _, test := range tests {
		var stdout, stderr strings.Builder
		a := &app{env: func(string) string { return "redis://production" }, stdout: &stdout, stderr: &stderr}
		a.play = func(_ context.Context, cfg chaos.Config) (chaos.Report, error) {
			if cfg.Redis != "redis://given" || cfg.Progress != a.stderr || cfg.Live || cfg.Results != nil {
				t.Errorf("%s: config = %+v, want the flag's Redis, progress in lines on stderr, and no text", test.name, cfg)
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

// The demo ignores the environment, and plays the scenes that were named.
func TestDemoPlaysTheScenesThatWereNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"demo"}, "queue", 0},
		{[]string{"demo", "all"}, "queue ick steal expiry lease scatter fleet failover", 0},
		{[]string{"demo", "lease", "all"}, "queue ick steal expiry lease scatter fleet failover", 0},
		{[]string{"demo", "lease", "ick"}, "ick lease", 0},
		{[]string{"demo", "kew"}, "", 2},
	} {
		var stdout, stderr strings.Builder
		var played []string
		a := &app{env: func(string) string { return "redis://production" }, stdout: &stdout, stderr: &stderr}
		a.play = func(_ context.Context, cfg chaos.Config) (chaos.Report, error) {
			if cfg.Redis != "" || cfg.Results != a.stdout {
				t.Errorf("the demo was to run on %q, with results on %v", cfg.Redis, cfg.Results)
			}
			for _, s := range cfg.Scenes {
				played = append(played, s.Name)
			}
			return chaos.Report{OK: true}, nil
		}
		if code := a.run(t.Context(), test.args); code != test.code || strings.Join(played, " ") != test.want {
			t.Errorf("%v: exit code %d, scenes %v, want %d, %s; %s", test.args, code, played, test.code, test.want, stderr.String())
		}
	}
}

// The demo's workers are the command itself.
func TestDemoWorker(t *testing.T) {
	t.Parallel()
	out, err := command(t, "demo-child", "none").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), `no scene "none"`) {
		t.Errorf("millrace demo-child none says %q, %v; want exit code 2 and that there is no such scene", out, err)
	}
}
