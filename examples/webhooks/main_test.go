package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// brief is a short job with a noisy tenant who has far more than a courier with so few
// hands can deliver meanwhile, also where little is posted because the machine is busy.
func brief(url string, streams int) job {
	return job{redis: url, streams: streams, hands: 16, quiet: 10, every: 100 * time.Millisecond, alone: 500 * time.Millisecond, together: time.Second}
}

func TestEveryWebhookIsAccountedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	seen, err := brief(server.URL(), 0).run(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if got, want := report(&out, seen), exitOK; got != want {
		t.Errorf("exit code = %d, want %d:\n%s", got, want, out.String())
	}
	for _, want := range []string{"of 11 tenants", "the endpoint answered 410 Gone", "0 deliveries were cut off", "every webhook was delivered or is a dead letter"} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	client := server.Client(t)
	size, err := client.Do(t.Context(), client.B().Dbsize().Build()).ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := size, int64(0); got != want {
		t.Errorf("%d keys are left in Redis, want %d", got, want)
	}
}

// The verdict can fail: with one stream for all, the others wait behind the noisy
// tenant.
func TestInOneLineTheNoisyTenantDelaysTheOthers(t *testing.T) {
	t.Parallel()
	seen, err := brief(redistest.Start(t, redistest.Options{}).URL(), 1).run(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := seen.account(); len(wrong) > 0 {
		t.Errorf("wrong = %q, want nothing but the delay", wrong)
	}
	var out bytes.Buffer
	if got, want := report(&out, seen), exitFailed; got != want || !strings.Contains(out.String(), "the noisy tenant delays the others") {
		t.Errorf("exit code = %d, want %d for the delay:\n%s", got, want, out.String())
	}
}

func TestWrongFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown flag", []string{"--fast"}, exitUsage, "-fast"},
		{"an argument", []string{"redis://somewhere"}, exitUsage, "--redis redis://somewhere"},
		{"no such queue", []string{"--streams", "2000"}, exitFailed, "1024 streams"},
		{"no Redis there", []string{"--redis", "redis://127.0.0.1:1"}, exitFailed, "Try:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if got, want := run(t.Context(), test.args, &out, &errs), test.code; got != want {
				t.Errorf("exit code = %d, want %d", got, want)
			}
			if got, want := errs.String(), test.says; !strings.Contains(got, want) {
				t.Errorf("standard error = %q, want it to say %q", got, want)
			}
			if got, want := out.String(), ""; got != want {
				t.Errorf("standard output = %q, want %q", got, want)
			}
		})
	}
}
