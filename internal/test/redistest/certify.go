package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// Certificate is a certificate with the key that signs others in its name.
type Certificate struct {
	*x509.Certificate

	key *ecdsa.PrivateKey
}

// Certify writes a certificate and its key to NAME.pem and NAME.key in a folder. It
// is signed by an authority, or by itself.
func Certify(t testing.TB, folder, name string, authority *Certificate, hosts ...string) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &Certificate{&x509.Certificate{
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

var withoutTLS = regexp.MustCompile(`(?s)'tls-port.*Bad directive|Failed finding TLS support`)

// WithoutTLS reports whether a server did not start because it was built without TLS.
func WithoutTLS(err error) bool { return err != nil && withoutTLS.MatchString(err.Error()) }
