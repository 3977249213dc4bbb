package etcd

import (
	"context"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/etcdtest"
)

func TestIsOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.3.8": true, "3.3.99": true, "3.4.23": true, "3.4.41": true, "3.5.16": true, "3.5.27": true, "3.6.0": true, "3.6.8": true, "3.6.0-rc.1": true,
		"3.4.42": false, "3.4.43": false, "3.5.28": false, "3.5.30": false, "3.6.9": false, "3.6.10+git": false, "3.7.0": false, "3.7.3": false, "3.10.0": false, "4.0.0": false,
		"": true, "3": true, "3.5": true, "unknown": true,
	} {
		if got := isOld(version); got != want {
			t.Errorf("isOld(%q) = %t, want %t", version, got, want)
		}
	}
}

// pretend has members of etcd say that they have these versions; "" is the true one.
func pretend(s *store, versions ...string) {
	for i, version := range versions {
		s.members[i].config.DialOptions = append(s.members[i].config.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, conn, opts...)
				if status, ok := reply.(*pb.StatusResponse); ok && version != "" {
					status.Version = version
				}
				return err
			}))
	}
}

// TestOldEtcd: one member of a version with stale reads is enough to refuse a new fleet, and to
// be a failure of an existing one. Members that are silent do not count, unless all are.
func TestOldEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	old := func(s *store) (servers []string) {
		for _, r := range s.Examine(t.Context(), 0) {
			if r.Code != "stale_reads" {
				continue
			}
			if r.Severity != finding.Critical || !strings.Contains(r.Text, fixedVersions) {
				t.Errorf("remark %+v, want a failure, and which versions are needed", r)
			}
			servers = append(servers, r.Server)
		}
		return servers
	}
	for _, tc := range []struct {
		versions []string
		named    int // the member that is too old; -1 for none
	}{
		{[]string{"", "", ""}, -1},
		{[]string{"3.4.42", "3.5.28", "3.6.9"}, -1},
		{[]string{"3.4.42", "3.5.16", "3.6.9"}, 1},
		{[]string{"", "", "3.4.23"}, 2},
	} {
		s := dialStore(t, cluster.URL("f"))
		pretend(s, tc.versions...)
		err := directory.New(s).Verify(t.Context())
		if tc.named < 0 {
			if named := old(s); err != nil || named != nil {
				t.Errorf("versions %q: Verify = %v, and the examination names %q; want nothing", tc.versions, err, named)
			}
			continue
		}
		addr, version := cluster.Members[tc.named].Addr(), tc.versions[tc.named]
		if millrace.Code(err) != "unfit" || !strings.Contains(err.Error(), addr+" has version "+version) || !strings.Contains(err.Error(), fixedVersions) || millrace.Hint(err) == "" {
			t.Errorf("versions %q: Verify = %v, hint %q; want that %s has version %s", tc.versions, err, millrace.Hint(err), addr, version)
		}
		if named := old(s); !slices.Equal(named, []string{addr}) {
			t.Errorf("versions %q: the examination names %q, want %s", tc.versions, named, addr)
		}
	}

	cluster.Members[0].Kill()
	if err := dial(t, cluster.URL("f")).Verify(t.Context()); err != nil {
		t.Errorf("Verify with a silent member = %v", err)
	}
	cluster.Members[1].Kill()
	cluster.Members[2].Kill()
	if err := dial(t, cluster.URL("f")).Verify(t.Context()); millrace.Code(err) != "unfit" || !strings.Contains(err.Error(), "no member of etcd answers") {
		t.Errorf("Verify without any member = %v, want that none answers", err)
	}
}
