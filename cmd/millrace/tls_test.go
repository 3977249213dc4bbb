package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

// TestTLS connects to a server that speaks TLS only, in processes of their own:
// which certificates a process trusts is settled once.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authority := certify(t, folder, "authority", nil)
	certify(t, folder, "server", authority, "localhost")
	certify(t, folder, "stranger", nil)
	port := freePort(t)
	server, err := redisproc.Start(t.Context(), redisproc.Config{Binary: redistest.Binary(t), Args: []string{
		"--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(folder, "server.pem"), "--tls-key-file", filepath.Join(folder, "server.key"),
		"--tls-ca-cert-file", filepath.Join(folder, "authority.pem"),
		"--user", "app", "on", ">secret", "~*", "+@all",
	}})
	if err != nil && withoutTLS.MatchString(err.Error()) {
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
		stdout, stderr     string // what is in them
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

// withoutTLS finds in a server's last words that it does not know TLS.
var withoutTLS = regexp.MustCompile(`(?s)'tls-port.*Bad directive|Failed finding TLS support`)

// certificate is one, and what signs others in its name.
type certificate struct {
	*x509.Certificate

	key *ecdsa.PrivateKey
}

// certify writes a certificate and its key to NAME.pem and NAME.key in a folder. It
// is signed by an authority, or by itself.
func certify(t *testing.T, folder, name string, authority *certificate, hosts ...string) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificate{&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: authority == nil, BasicConstraintsValid: true,
	}, key}
	signer := c
	if authority != nil {
		signer = authority
	}
	signed, err := x509.CreateCertificate(rand.Reader, c.Certificate, signer.Certificate, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: signed},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// freePort returns a port that nobody listened on a moment ago.
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
