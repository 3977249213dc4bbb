package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// serving runs millrace serve on a port of its own until the test ends, and returns
// where it is.
func serving(t *testing.T, env map[string]string, flags ...string) string {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
	said, stdout := io.Pipe()
	a := &app{
		env: func(name string) string { return env[name] }, stdin: strings.NewReader(""),
		stdout: stdout, stderr: t.Output(),
	}
	ended := make(chan int, 1)
	go func() {
		ended <- a.run(ctx, append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, flags...))
		stdout.Close()
	}()
	var doc servedDoc
	if err := json.NewDecoder(said).Decode(&doc); err != nil {
		t.Fatalf("millrace serve says nothing: %v", err)
	}
	t.Cleanup(func() {
		interrupt()
		if code := <-ended; code != 0 {
			t.Errorf("millrace serve ends with %d", code)
		}
	})
	return doc.URL
}

func TestServe(t *testing.T) {
	t.Parallel()
	redis := redistest.Shared(t)
	url := serving(t, map[string]string{"MILLRACE_REDIS_URL": redis.URL()}, "--prefix", "/mill")
	for path, want := range map[string]int{"": 200, "v1/queues": 200, "openapi.json": 200, "metrics": 200, "healthz": 200, "readyz": 200, "nowhere": 404} {
		response, err := plainClient.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s%s: %d, want %d", url, path, response.StatusCode, want)
		}
	}
}

// plainClient keeps no connections, whose goroutines would look like a leak.
var plainClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// stopAtOnce is the output of a service that is to serve nothing: its first text ends the context.
type stopAtOnce struct {
	strings.Builder

	stop context.CancelFunc
}

func (s *stopAtOnce) Write(p []byte) (int, error) {
	s.stop()
	return s.Builder.Write(p)
}

// TestServeRefusesToBeOpen: no command line serves clients without credentials on an open
// address, nor tells a secret.
func TestServeRefusesToBeOpen(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-somebody"
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("bearer "+secret+"\nbasic "+secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		auth string
		says string
		hint string
	}{
		"everywhere":          {args: []string{"--listen", "0.0.0.0:0"}, says: "could read and change everything", hint: "MILLRACE_AUTH"},
		"no host":             {args: []string{"--listen", ":0"}, says: "could read and change everything", hint: "MILLRACE_AUTH"},
		"IPv6 everywhere":     {args: []string{"--listen", "[::]:0"}, says: "could read and change everything", hint: "MILLRACE_AUTH"},
		"another address":     {args: []string{"--listen", "192.0.2.1:0"}, says: "could read and change everything", hint: "MILLRACE_AUTH"},
		"another name":        {args: []string{"--listen", "example.com:0"}, says: "could read and change everything", hint: "MILLRACE_AUTH"},
		"a short token":       {args: []string{"--listen", ":0"}, auth: "bearer short", says: "line 1 has no token", hint: "openssl rand"},
		"no client":           {args: []string{"--listen", ":0"}, auth: "# bearer " + secret, says: "no client", hint: "bearer TOKEN"},
		"no scheme":           {auth: secret, says: "line 1 has neither", hint: "bearer TOKEN"},
		"a bad file":          {args: []string{"--auth-file", auth}, says: "line 2 has no user", hint: "bearer TOKEN"},
		"a file that is none": {args: []string{"--auth-file", auth + "-none"}, says: "--auth-file", hint: "serve --help"},
		"no port":             {args: []string{"--listen", "127.0.0.1"}, says: "not HOST:PORT", hint: "serve --help"},
		"half a certificate":  {args: []string{"--tls-cert", "cert.pem"}, says: "belong together", hint: "serve --help"},
		"no certificate":      {args: []string{"--tls-cert", auth, "--tls-key", auth}, says: "--tls-cert", hint: "serve --help"},
		"a prefix":            {args: []string{"--prefix", "mill/"}, says: "not one like /millrace", hint: "serve --help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stdout := &stopAtOnce{stop: cancel}
			env := func(variable string) string {
				return map[string]string{"MILLRACE_AUTH": tt.auth, "MILLRACE_REDIS_URL": redistest.Shared(t).URL()}[variable]
			}
			args := append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, tt.args...)
			code := run(ctx, args, env, strings.NewReader(""), stdout, &stderr)
			if code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), tt.says) || !strings.Contains(stderr.String(), tt.hint) {
				t.Errorf("%v ends with %d, says %q and %q, want 2, %q and a hint with %q", tt.args, code, stdout, &stderr, tt.says, tt.hint)
			}
			if strings.Contains(stderr.String(), secret) {
				t.Errorf("%v tells a secret: %s", tt.args, &stderr)
			}
		})
	}
}

// TestCurl runs every curl example of the README and of docs/HTTP.md, in order,
// against a service on an empty server, and compares the output.
func TestCurl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl; internal/repo/scripts/test-deps installs it")
	}
	for page, least := range map[string]int{"../../README.md": 4, "../../docs/HTTP.md": 20} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			url := serving(t, map[string]string{"MILLRACE_REDIS_URL": redistest.Start(t, redistest.Options{}).URL()})
			host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
			c := contract{shell: shell{t: t, url: ""}, tokens: make(map[string]string), addrs: strings.NewReplacer("127.0.0.1:8420", host)}
			seen := 0
			for _, e := range readExamples(string(text)) {
				if strings.HasPrefix(e.command, "curl ") {
					c.curl(e)
					seen++
				}
			}
			if seen < least {
				t.Errorf("%s has %d examples with curl, want at least %d", page, seen, least)
			}
		})
	}
}

// curl runs one example in a shell.
func (c *contract) curl(e example) {
	c.t.Helper()
	command := c.addrs.Replace(e.command)
	for shown, real := range c.tokens {
		command = strings.ReplaceAll(command, shown, real)
	}
	shell := exec.CommandContext(c.t.Context(), "sh", "-c", command)
	shell.Stderr = c.t.Output()
	output, err := shell.Output()
	if err != nil {
		c.t.Errorf("%s: %v", command, err)
		return
	}
	want, got := values(c.t, e.output), values(c.t, string(output))
	if diff := c.compare("", want, got, false); diff != "" {
		c.t.Errorf("%s: %s\npage: %sreal: %s", e.command, diff, e.output, output)
	}
}

// TestServeSendsTraces runs the service as a process of its own, since OpenTelemetry
// reads the environment by itself, and is its collector.
func TestServeSendsTraces(t *testing.T) {
	t.Parallel()
	received := make(chan string, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector is asked for %s: %v", r.URL.Path, err)
		}
		received <- string(body)
	}))
	defer collector.Close()

	child := exec.CommandContext(t.Context(), os.Args[0], "serve", "--json", "--listen", "127.0.0.1:0")
	child.Env = append(os.Environ(), asCommand+"=1", "MILLRACE_REDIS_URL="+redistest.Shared(t).URL(),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_SERVICE_NAME=shop-queues")
	child.Stderr = t.Output()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var doc servedDoc
	if err := json.NewDecoder(stdout).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, doc.URL+"v1/queues/"+redistest.Name(t)+"/messages",
		strings.NewReader(`{"tenant":"acme","body":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	response, err := plainClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("a write: %s", response.Status)
	}
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want the exit code 0", err)
	}
	close(received) // all spans are sent before the process ends
	var all strings.Builder
	for body := range received {
		all.WriteString(body)
	}
	const trace = "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c" // of the client
	for _, want := range []string{"shop-queues", "fairqueue.write", "POST", trace} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the traces do not have %q", want)
		}
	}
}

// TestTracesByEnvironment reads OpenTelemetry's variables.
func TestTracesByEnvironment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		on   bool
		code string
	}{
		"nothing":        {},
		"switched off":   {env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"no exporter":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"an endpoint":    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"for traces":     {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"the default":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		"over gRPC":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, code: "bad_usage"},
		"another system": {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, code: "bad_usage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traces, err := openTraces(t.Context(), func(variable string) string { return tt.env[variable] })
			if got := millrace.Code(err); got != tt.code || (traces != nil) != tt.on {
				t.Errorf("traces %v, %v; want on %v, code %q", traces, err, tt.on, tt.code)
			}
			traces.close(slog.New(slog.DiscardHandler))
		})
	}
}

// TestServeTLS serves HTTPS with a certificate of its own, and authenticates callers.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	template := httptest.NewUnstartedServer(http.NotFoundHandler())
	template.StartTLS() // for its certificate, which is for 127.0.0.1
	defer template.Close()
	pair := template.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url := serving(t,
		map[string]string{"MILLRACE_REDIS_URL": redistest.Shared(t).URL(), "MILLRACE_AUTH": "bearer 0123456789abcdef"},
		"--tls-cert", write("cert.pem", "CERTIFICATE", pair.Certificate[0]), "--tls-key", write("key.pem", "PRIVATE KEY", key))
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("it serves at %s, want https", url)
	}
	roots := x509.NewCertPool()
	roots.AddCert(template.Certificate())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for header, want := range map[string]int{"Bearer 0123456789abcdef": 200, "Bearer fedcba9876543210": 401} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"v1/queues", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", header)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("with %s: %d, want %d", header, response.StatusCode, want)
		}
	}
}

// TestServeWithoutRedis says loudly that nothing survives, and works.
func TestServeWithoutRedis(t *testing.T) {
	t.Parallel()
	url := serving(t, nil)
	response, err := plainClient.Post(url+"v1/icks/search/marks", "application/json", strings.NewReader(`{"members":["doc:1"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if got, want := strings.TrimSpace(string(body)), `{"new":1,"lowered":0}`; err != nil || got != want {
		t.Errorf("a mark: %s %s, %v, want %s", response.Status, got, err, want)
	}
}

// TestServeCounters scatters counters over other servers than the one for the rest,
// and counts the calls to them among the metrics.
func TestServeCounters(t *testing.T) {
	t.Parallel()
	counters := redistest.Start(t, redistest.Options{}).URL() + "," + redistest.Start(t, redistest.Options{}).URL()
	url := serving(t, map[string]string{"MILLRACE_REDIS_URL": redistest.Shared(t).URL()}, "--counters", counters)
	ask := func(method, path, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := plainClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(answer))
	}
	for range 4 { // by turns
		ask(http.MethodPost, "v1/counters/impressions/add", `{"n":3}`)
	}
	if got, want := ask(http.MethodGet, "v1/counters/impressions", ""), `{"value":12,"servers":2,"answered":2}`; got != want {
		t.Errorf("the counter is %s, want %s", got, want)
	}
	if metrics := ask(http.MethodGet, "metrics", ""); !strings.Contains(metrics, `script="scatter.flush"`) {
		t.Error("/metrics has no calls to the counters' servers")
	}
}
