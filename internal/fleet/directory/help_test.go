package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// start returns a directory on a server of its own: the key of a map is always the
// same.
func start(t *testing.T) (*Directory, *redistest.Server) {
	t.Helper()
	server := redistest.Durable(t)
	return dial(t, server.Addr()), server
}

// dial returns the directory on a server that listens on TCP or on a socket.
func dial(t *testing.T, addr string, changes ...func(*rueidis.ClientOption)) *Directory {
	t.Helper()
	option := rueidis.ClientOption{InitAddress: []string{addr}}
	option.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		network := "tcp"
		if strings.HasPrefix(addr, "/") {
			network = "unix"
		}
		return dialer.DialContext(ctx, network, addr)
	}
	for _, change := range changes {
		change(&option)
	}
	d, err := Dial(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// sample returns a map with that epoch: two partitions, one with a replica.
func sample(t *testing.T, epoch int64) *Map {
	t.Helper()
	r, err := ring.New(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	return &Map{
		Version: Version, Fleet: "sample", Epoch: epoch, Floor: 1, Points: r.Points(),
		Partitions: []Partition{
			{ID: 0, Epoch: 1, Phase: Open, Master: Member{Addr: "a:1", Node: "a"}, Replicas: []Member{{Addr: "b:1", Node: "b"}}},
			{ID: 1, Epoch: 1, Phase: Open, Master: Member{Addr: "b:2", Node: "b"}},
		},
	}
}

// change stores a map that must be accepted.
func change(t *testing.T, d *Directory, epoch int64, next *Map) {
	t.Helper()
	if err := d.Change(t.Context(), epoch, next); err != nil {
		t.Fatalf("Change(%d) to %d = %v", epoch, next.Epoch, err)
	}
}

// wantMap checks the map that Load or Confirm returned; want is nil for a confirmation.
func wantMap(t *testing.T, what string, got *Map, err error, want *Map) {
	t.Helper()
	if err != nil {
		t.Errorf("%s = %v", what, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(t.Context(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(t, client, args...).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

func integer(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := do(t, client, args...).AsInt64()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return n
}
