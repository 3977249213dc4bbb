package dist

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// The module deploy/kubernetes decodes the manifests into the types of Kubernetes and KEDA. These tests compare them with
// the command, the service and the example of a worker; a test of the command looks at args, and one of deploy/grafana
// at the queries.

const viewer = "4b0f6c1e9b7d3a48e6b2c4a1d8e7f609" // stands for the token in the Secret

// one returns what the group of a pattern finds in a file, where it must be once.
func one(t *testing.T, path, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d times %s, want once", path, len(found), pattern)
	}
	return found[0][1]
}

// seconds is one for a number of seconds.
func seconds(t *testing.T, path, pattern string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(one(t, path, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

const grace = `terminationGracePeriodSeconds: (\d+)`

// TestGracePeriods: a pod has longer to end than its program takes. Consume tries for a time to settle the messages of
// handlers that have ended; the service has closed its connections after its time for requests.
func TestGracePeriods(t *testing.T) {
	t.Parallel()
	worker := seconds(t, "kubernetes/worker.yaml", grace)
	settle := seconds(t, "../fairqueue/pump.go", `settleTimeout = (\d+) \* time.Second`)
	if drain := seconds(t, "../examples/recipes/worker/main.go", `Drain: +(\d+) \* time.Second`); worker < drain+settle+2*time.Second {
		t.Errorf("a worker has %s to end, drains for %s, and settles for %s", worker, drain, settle)
	}
	serve, preStop := seconds(t, "kubernetes/serve.yaml", grace), seconds(t, "kubernetes/serve.yaml", `sleep: \{seconds: (\d+)\}`)
	if drain := seconds(t, "../server/serve.go", `drainTimeout = (\d+) \* time.Second`); serve < preStop+drain+5*time.Second {
		t.Errorf("the service has %s to end, waits for %s and drains for %s", serve, preStop, drain)
	}
	if unit, drain := seconds(t, "millrace.service", `TimeoutStopSec=(\d+)s`), seconds(t, "../server/serve.go", `drainTimeout = (\d+) \* time.Second`); unit < drain+5*time.Second {
		t.Errorf("the unit has %s to end, and drains for %s", unit, drain)
	}
}

// TestServeImage: the manifest has the image of the release that CHANGELOG begins with, and the port that it listens on.
func TestServeImage(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^## \[(\d[^\]]*)\]`).FindStringSubmatch(read(t, "../CHANGELOG.md"))
	want := one(t, "../.goreleaser.yaml", `images: \[(\S+)\]`) + ":" + version[1]
	if got := one(t, "kubernetes/serve.yaml", `image: (\S+)`); got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	port := one(t, "kubernetes/serve.yaml", `--listen, "[^"]*:(\d+)"`)
	if got := one(t, "kubernetes/serve.yaml", `containerPort: (\d+)`); got != port {
		t.Errorf("the container has port %s, and the command listens on %s", got, port)
	}
	if got := last(dockerfile(t), "EXPOSE"); got != port {
		t.Errorf("the image has port %s, and the command listens on %s", got, port)
	}
}

// TestServeAnswers asks a service as the probes, the scrape and the scaler of the manifests do: probes without credentials,
// the others as a viewer.
func TestServeAnswers(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	auth, err := server.ParseAuth("viewer bearer " + viewer)
	if err != nil {
		t.Fatal(err)
	}
	service, err := server.New(server.Config{Client: client, Auth: auth, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- service.Serve(ctx, listener) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	get := func(path, token string) (status int, body []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err = io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}

	probes := regexp.MustCompile(`httpGet: \{path: (\S+), port: http\}`).FindAllStringSubmatch(read(t, "kubernetes/serve.yaml"), -1)
	if len(probes) != 2 {
		t.Errorf("there are %d probes, want 2", len(probes))
	}
	for _, probe := range probes {
		if status, body := get(probe[1], ""); status != http.StatusOK {
			t.Errorf("the probe %s is answered %d, %s", probe[1], status, body)
		}
	}
	metrics := one(t, "kubernetes/servicemonitor.yaml", `path: (\S+)`)
	if status, _ := get(metrics, viewer); status != http.StatusOK {
		t.Errorf("a scrape is answered %d", status)
	}
	if status, _ := get(metrics, ""); status != http.StatusUnauthorized {
		t.Errorf("a scrape without a token is answered %d, so the manifest needs none", status)
	}

	// One of five messages is in flight.
	q, err := fairqueue.New(client, "orders", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Read(t.Context(), fairqueue.ReadConfig{}); err != nil {
		t.Fatal(err)
	}
	scaler := read(t, "kubernetes/keda-metrics-api.yaml")
	host := "http://" + serviceName(t) + ".default.svc:" + one(t, "kubernetes/serve.yaml", `port: (\d+), targetPort`)
	values := map[string]float64{}
	for _, trigger := range regexp.MustCompile(`url: (\S+)\n +valueLocation: (\S+)`).FindAllStringSubmatch(scaler, -1) {
		path, ok := strings.CutPrefix(trigger[1], host)
		if !ok {
			t.Errorf("a scaler asks %s, and the service is at %s", trigger[1], host)
		}
		status, body := get(path, viewer)
		var answer map[string]any
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatalf("%s is answered %d, %s: %v", path, status, body, err)
		}
		number, ok := answer[trigger[2]].(float64)
		if !ok {
			t.Errorf("%s has no number %s: %s", path, trigger[2], body)
		}
		values[trigger[2]] = number
	}
	if len(values) != 2 || values["waiting"] != 4 || values["in_flight"] != 1 {
		t.Errorf("the scaler sees %v, want 4 that wait and 1 in flight", values)
	}
	http.DefaultClient.CloseIdleConnections()
}

func serviceName(t *testing.T) string {
	t.Helper()
	return one(t, "kubernetes/serve.yaml", `kind: Service\nmetadata:\n  name: (\S+)`)
}

// TestSecret runs the command of docs/RECIPES.md that makes the Secret, with another program in place of kubectl: it has all
// keys that the manifests name, and the service takes its credentials.
func TestSecret(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	command := one(t, "../docs/RECIPES.md", "(?s)```sh\n([^`]*kubectl create secret[^`]*)```")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte("#!/bin/sh\nprintf '%s\\0' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, command)
	}
	args := strings.Split(string(out), "\x00")
	if want := []string{"create", "secret", "generic", "millrace"}; !slices.Equal(args[:4], want) {
		t.Errorf("the command begins with %q, want %q", args[:4], want)
	}
	secret := map[string]string{}
	for _, arg := range args[4:] {
		if literal, ok := strings.CutPrefix(arg, "--from-literal="); ok {
			key, value, _ := strings.Cut(literal, "=")
			secret[key] = value
		}
	}
	if _, err := server.ParseAuth(secret["auth"]); err != nil || !strings.Contains(secret["auth"], "viewer bearer "+secret["viewer"]) {
		t.Errorf("the service does not take %q, or does not know the viewer: %v", secret["auth"], err)
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("manifests: %v, %v", files, err)
	}
	named := regexp.MustCompile(`name: millrace, key: ([a-z-]+)\}`)
	used := 0
	for _, file := range files {
		for _, match := range named.FindAllStringSubmatch(read(t, file), -1) {
			used++
			if secret[match[1]] == "" {
				t.Errorf("%s names %s of the Secret, which the command does not make", file, match[1])
			}
		}
	}
	if used < 5 {
		t.Errorf("the manifests use %d keys of the Secret", used)
	}
}
