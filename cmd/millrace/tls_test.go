package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestTLS connects to a server that speaks TLS only, in processes of their own:
// which certificates a process trusts is settled once.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authority := redistest.Certify(t, folder, "authority", nil)
	redistest.Certify(t, folder, "server", authority, "localhost")
	redistest.Certify(t, folder, "stranger", nil)
	port := freePort(t)
	server, err := redisproc.Start(t.Context(), redisproc.Config{Binary: redistest.Binary(t), Args: []string{
		"--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(folder, "server.pem"), "--tls-key-file", filepath.Join(folder, "server.key"),
		"--tls-ca-cert-file", filepath.Join(folder, "authority.pem"),
		"--user", "app", "on", ">secret", "~*", "+@all",
	}})
	if err != nil && redistest.WithoutTLS(err) {
		t.Skip("this server was built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name, url, trusted string
		stdout, stderr     string // texts that they contain
	}{
		{"trusted", "rediss://app:secret@localhost:" + port, "authority.pem", "1 new, 0 lowered\n", ""},
		{"of a stranger", "rediss://app:secret@localhost:" + port, "stranger.pem", "", "SSL_CERT_FILE"},
		{"for another name", "rediss://app:secret@127.0.0.1:" + port, "authority.pem", "", "SSL_CERT_FILE"},
		{"not asked for", "redis://app:secret@localhost:" + port, "authority.pem", "", "cannot connect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			child := command(t, "ick", "add", redistest.Name(t), "1", "a", "--redis", test.url)
			child.Env = append(child.Env, "SSL_CERT_FILE="+filepath.Join(folder, test.trusted), "SSL_CERT_DIR="+t.TempDir())
			var stdout, stderr bytes.Buffer
			child.Stdout, child.Stderr = &stdout, &stderr
			err := child.Run()
			if (err == nil) != (test.stderr == "") || stdout.String() != test.stdout || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("millrace = %v, %q, %q; want %q, %q", err, stdout.String(), stderr.String(), test.stdout, test.stderr)
			}
			if strings.Contains(stderr.String(), "secret") {
				t.Errorf("the password is shown: %q", stderr.String())
			}
		})
	}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
