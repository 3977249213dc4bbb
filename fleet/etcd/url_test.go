package etcd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url       string
		endpoints string
		user      string
		password  string
		fleet     string
		members   string // user, password and whether over TLS
	}{
		{"etcd://a", "a:2379", "", "", "default", "  false"},
		{"etcd://a:1,b,[::1]:3/", "a:1 b:2379 [::1]:3", "", "", "default", "  false"},
		{"etcd://u:p%2Fw@a,b/orders-2", "a:2379 b:2379", "u", "p/w", "orders-2", "  false"},
		{"etcd://u:p,w@a,b/x", "a:2379 b:2379", "u", "p,w", "x", "  false"},
		{"etcds://a,b?member_user=m&member_password=s%26t&member_tls", "a:2379 b:2379", "", "", "default", "m s&t true"},
		{"etcd://a?member_tls=true&skip_verify", "a:2379", "", "", "default", "  true"},
	} {
		a, err := parse(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		tls := "false"
		if a.servers.TLSConfig != nil {
			tls = "true"
		}
		got := []string{strings.Join(a.endpoints, " "), a.user, a.password, a.fleet, a.servers.Username + " " + a.servers.Password + " " + tls}
		if diff := cmp.Diff([]string{tt.endpoints, tt.user, tt.password, tt.fleet, tt.members}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.url, diff)
		}
		if secure := strings.HasPrefix(tt.url, "etcds"); secure != (a.tls != nil) {
			t.Errorf("%s: over TLS: %t", tt.url, !secure)
		}
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "etcd", "etcd://", "redis://a", "fleet://a:1", "etcd://a,", "etcd://a:1:2", "etcd://secret:%zz@a", "etcd://a:/x",
		"etcd://secret@a/x/y", "etcd://secret:secret@a/x y", "etcd://a?addr=b", "etcd://a?skip_verify", "etcd://a?ca=/nothing", "etcds://a?ca=/nothing",
		"etcds://a?cert=/nothing&key=/nothing", "etcd://a?cert=/nothing", "etcds://a?skip_verify=perhaps",
	} {
		_, err := Dial(t.Context(), url, fleet.Config{})
		if !errors.Is(err, millrace.ErrBadArgument) || millrace.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("Dial(%q) = %v, hint %q, want millrace.ErrBadArgument with a hint and without the password", url, err, millrace.Hint(err))
		}
	}
}

// wantTrouble expects a call to fail with a code, a word and a hint, soon.
func wantTrouble(t *testing.T, url, code, word string) {
	t.Helper()
	began := time.Now()
	_, err := dial(t, url).Confirm(t.Context(), 0)
	err = directory.Unreachable(t.Context(), err)
	if millrace.Code(err) != code || err == nil || !strings.Contains(err.Error(), word) || millrace.Hint(err) == "" {
		t.Errorf("Confirm = %v, code %q, hint %q, want %s, with %q", err, millrace.Code(err), millrace.Hint(err), code, word)
	}
	if took := time.Since(began); took > 2*callTimeout {
		t.Errorf("Confirm took %v to fail with %v", took, err)
	}
}

// TestAuthentication: a user of etcd with a role for the prefix millrace/ can do all that the
// contract asks for; others get an error that names the missing right.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	client, ctx := cluster.Members[0].Client(t), t.Context()
	addr := cluster.Members[0].Addr()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(client.RoleAdd(ctx, "root"))
	do(client.UserAdd(ctx, "root", "root"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.RoleAdd(ctx, "millrace"))
	do(client.RoleGrantPermission(ctx, "millrace", "millrace/", "millrace0", 2)) // read and write
	do(client.UserAdd(ctx, "millrace", "s/e?c#r,e@t"))
	do(client.UserGrantRole(ctx, "millrace", "millrace"))
	do(client.UserAdd(ctx, "nobody", "pw"))
	do(client.AuthEnable(ctx))

	d := dial(t, "etcd://millrace:s%2Fe%3Fc%23r%2Ce%40t@"+addr)
	if err := d.Change(ctx, 0, directorytest.Sample(t, 1)); err != nil {
		t.Errorf("Change = %v", err)
	}
	if m, err := d.Confirm(ctx, 1); m != nil || err != nil {
		t.Errorf("Confirm = %+v, %v", m, err)
	}
	for range 2 { // the second one renews
		if leads, err := d.Lead(ctx, "a", time.Minute); !leads || err != nil {
			t.Errorf("Lead = %t, %v", leads, err)
		}
	}
	if _, _, err := directory.AdoptMoves(ctx, d); err != nil {
		t.Errorf("AdoptMoves = %v", err)
	}
	if err := d.Note(ctx, directory.Event{What: "x"}); err != nil {
		t.Errorf("Note = %v", err)
	}
	if err := d.Verify(ctx); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if remarks := d.Examine(ctx); slices.ContainsFunc(remarks, func(r directory.Remark) bool { return r.Code == "silent" }) {
		t.Errorf("Examine finds %+v, want what the member says", remarks)
	}
	wantTrouble(t, "etcd://"+addr, "no_permission", "user name is empty")
	wantTrouble(t, "etcd://millrace:wrong@"+addr, "no_permission", "invalid user ID or password")
	wantTrouble(t, "etcd://nobody:pw@"+addr, "no_permission", "permission denied")
}

// TestTLS: with the authority's and the client's certificate it connects; without them the
// error says what to do.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1, Secure: true, Args: []string{
		"--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert,
	}})
	addr := cluster.Members[0].Addr()
	pair := "?cert=" + cert + "&key=" + key
	for _, options := range []string{"&ca=" + cert, "&skip_verify"} {
		d := dial(t, "etcds://"+addr+pair+options)
		redistest.Eventually(t, "etcd answers", func() bool {
			_, err := d.Confirm(t.Context(), 0)
			return err == nil || errors.Is(err, directory.ErrNoFleet)
		})
		if err := d.Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
			t.Errorf("Change with %s = %v", options, err)
		}
	}
	wantTrouble(t, "etcds://"+addr+pair, "unavailable", "x509")
	// The server refuses after the client's handshake: its reason may come, or a broken connection.
	wantTrouble(t, "etcds://"+addr+"?ca="+cert, "unavailable", "")
	wantTrouble(t, "etcd://"+addr, "unavailable", "")
}

// TestRenewedCertificate: programs run for longer than a certificate lasts.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	a, err := parse("etcds://a?cert=" + cert + "&key=" + key)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() []byte {
		t.Helper()
		mine, err := a.tls.GetClientCertificate(new(tls.CertificateRequestInfo))
		if err != nil {
			t.Fatal(err)
		}
		return mine.Certificate[0]
	}
	first := shown()
	newCert, newKey := certificate(t)
	if err := errors.Join(os.Rename(newCert, cert), os.Rename(newKey, key)); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(shown(), first) {
		t.Error("a new connection shows the certificate that was replaced")
	}
}

// certificate returns the files of a certificate for 127.0.0.1 that signs itself, and of its
// key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert", "CERTIFICATE", public), write("key", "PRIVATE KEY", secret)
}

// TestUnreachable: nothing listens, or no fleet is there.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	wantTrouble(t, "etcd://127.0.0.1:1,127.0.0.1:2", "unavailable", "connection refused")
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	if _, err := Dial(t.Context(), cluster.URL("nothing"), fleet.Config{}); !errors.Is(err, directory.ErrNoFleet) {
		t.Errorf("Dial without a fleet = %v, want directory.ErrNoFleet", err)
	}
}
