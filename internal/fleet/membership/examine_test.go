package membership

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/grow"
)

// oldConn is a connection to a server that says it is of a very old version.
type oldConn struct{ net.Conn }

var firstDigit = regexp.MustCompile(`(_version:)\d`)

func (c oldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p, firstDigit.ReplaceAll(p[:n], []byte("${1}0")))
	return n, err
}

// TestAnOlderServerIsRefused, because it may be unable to copy its master.
func TestAnOlderServerIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 1})
	newcomer, m := w.spare("x"), w.mapNow()
	p, err := Make(m, AddReplica{0, newcomer})
	must(t, err)
	_, err = (&Config{}).Examine(t.Context(), m, p)
	must(t, err)
	cfg := &Config{Option: rueidis.ClientOption{
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err == nil && addr == newcomer.Addr {
				conn = oldConn{conn}
			}
			return conn, err
		},
	}}
	_, err = cfg.Examine(t.Context(), m, p)
	if !errors.Is(err, grow.ErrUnfit) || !strings.Contains(err.Error(), "cannot copy") {
		t.Errorf("Examine = %v, want ErrUnfit that says that it cannot copy", err)
	}
}

// TestARestartIsNotRepeated: a member that was restarted since the plan was made stays up.
func TestARestartIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 1})
	m := w.mapNow()
	p, err := Make(m, Restart{})
	must(t, err)
	_, err = (&Config{}).Examine(t.Context(), m, p)
	must(t, err)
	p.Tasks[0].Restart[0].Run = "of before"
	_, err = (&Config{}).Examine(t.Context(), m, p)
	if !errors.Is(err, ErrRefused) {
		t.Errorf("Examine = %v, want ErrRefused", err)
	}
}

// TestOlder compares versions whose snapshots may differ in format.
func TestOlder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		version, than string
		want          bool
	}{
		{"7.0.15", "7.0.16", false},
		{"7.0.15", "7.2.0", true},
		{"7.2.4", "7.0.15", false},
		{"6.2.14", "7.0.0", true},
		{"7.10.0", "7.9.0", false},
		{"7.9.0", "7.10.0", true},
		{"valkey 8.0.1", "valkey 8.1.0", true},
		{"valkey 8.1.0", "7.0.15", false},
		{"7.0.15", "valkey 8.1.0", false},
	} {
		if got := older(tc.version, tc.than); got != tc.want {
			t.Errorf("older(%q, %q) = %v, want %v", tc.version, tc.than, got, tc.want)
		}
	}
}
