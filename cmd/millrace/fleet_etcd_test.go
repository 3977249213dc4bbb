package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/doctor"
)

// TestFleetOnEtcd makes a fleet whose directory is in etcd, and loses a member of etcd
// and a master.
func TestFleetOnEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	s := shell{t: t, url: cluster.URL("shop")}
	s.refused(1, "not_found", "fleet", "show")
	servers := []*redistest.Server{member(t), member(t), member(t)}
	s.init("--placement-life", "3s", "--partition", servers[0].Addr()+"@a,"+servers[1].Addr()+"@b,"+servers[2].Addr()+"@c")
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	if got, want := agent.line(), `{"ready":true,"epoch":1,"partitions":1,"members":3}`+"\n"; got != want {
		t.Errorf("the agent prints %q, want %q", got, want)
	}
	s.isFull()
	written := func(body string) {
		t.Helper()
		redistest.Eventually(t, "messages are written and read", func() bool {
			if s.run("queue", "write", "mail", "--tenant", "acme", "--body", body).code != 0 {
				return false
			}
			got := s.run("queue", "read", "mail", "--max", "100", "--json")
			return got.code == 0 && strings.Contains(got.stdout, body)
		})
	}
	written("before")
	if r, code := examined(t, s.url); code != 0 || severities(r.Fleet)["state"] != doctor.OK {
		t.Errorf("doctor exits with %d and finds %+v", code, r.Fleet)
	}
	if codes := s.checks("directory"); codes != "durable" {
		t.Errorf("fleet check finds %q about the directory, want durable", codes)
	}
	if codes := s.checks("agents"); codes != "ok" {
		t.Errorf("fleet check finds %q about agents, want ok", codes)
	}

	cluster.Leader().Kill()
	written("without a member of etcd")
	if codes := s.checks("directory"); codes != "silent" {
		t.Errorf("fleet check finds %q about the directory, want a silent member", codes)
	}
	servers[0].Kill()
	s.shows("another master is there", func(doc overview.Fleet) bool {
		return doc.State == fleet.Partial && doc.Partitions[0].Master.Addr != servers[0].Addr()
	})
	written("without the master")
	if got := s.run("fleet", "show"); got.code != 0 || !strings.Contains(got.stdout, "in place of "+servers[0].Addr()) {
		t.Errorf("show = %+v, want what the agent did", got)
	}
	agent.end(syscall.SIGTERM)
}

// checks returns the codes of the findings of a check of the fleet.
func (s shell) checks(name string) string {
	s.t.Helper()
	var doc check.Report
	if got := s.run("fleet", "check", "--json"); json.Unmarshal([]byte(got.stdout), &doc) != nil {
		s.t.Fatalf("fleet check = %+v, want a document", got)
	}
	var codes []string
	for _, f := range doc.Findings {
		if f.Check == name {
			codes = append(codes, f.Code)
		}
	}
	slices.Sort(codes)
	return strings.Join(codes, " ")
}

// TestFleetInitOnEtcd gives clients three election timeouts of etcd or more. Fleets of other names are others.
func TestFleetInitOnEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	for name, tc := range map[string]struct {
		args []string
		want time.Duration
	}{
		"default": {nil, 3 * time.Second},
		"long":    {[]string{"--view-life", "4s"}, 4 * time.Second},
	} {
		s := shell{t: t, url: cluster.URL(name)}
		args := []string{"fleet", "init", "--skip-restart", "--partition", member(t).Addr()}
		s.refused(2, "bad_usage", append(args, "--view-life", "2999ms")...)
		if got := s.run(append(args, tc.args...)...); got.code != 0 {
			t.Errorf("%s: init = %+v", name, got)
		}
		f, err := (&app{env: s.env, stderr: t.Output()}).openFleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if set := directory.MapOf(f.Client()).Settings; set.ViewTTL != tc.want {
			t.Errorf("%s: the fleet has a ViewTTL of %v, want %v", name, set.ViewTTL, tc.want)
		}
		f.Close()
	}
}

// oldEtcd is a member of etcd of a version with stale reads. It has no keys, and notes calls that
// would change that.
type oldEtcd struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer

	changed atomic.Bool
}

func (*oldEtcd) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}}, nil
}

func (e *oldEtcd) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	e.changed.Store(true)
	return nil, errors.New("too old")
}

func (*oldEtcd) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: 1}, Leader: 1, Version: "3.5.16"}, nil
}

func (*oldEtcd) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: []*pb.Member{{ID: 1}}}, nil
}

// TestFleetInitOnOldEtcd is refused before a server or etcd is changed.
func TestFleetInitOnOldEtcd(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old, server := &oldEtcd{}, grpc.NewServer()
	pb.RegisterKVServer(server, old)
	pb.RegisterMaintenanceServer(server, old)
	pb.RegisterClusterServer(server, old)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(serving.Wait)
	t.Cleanup(server.Stop)

	member := redistest.Start(t, redistest.Options{TCP: true})
	f := shell{t: t, url: "etcd://" + listener.Addr().String()}.refused(1, "unfit", "fleet", "init", "--skip-restart", "--partition", member.Addr())
	if !strings.Contains(f.Error, "has version 3.5.16") || !strings.Contains(f.Error, "3.4.42, 3.5.28 or 3.6.9") || !strings.Contains(f.Hint, "Upgrade etcd") {
		t.Errorf("init says %q and %q, want the version, the versions that it needs, and what to do", f.Error, f.Hint)
	}
	c := member.Client(t)
	if keys, err := c.Do(t.Context(), c.B().Dbsize().Build()).AsInt64(); keys != 0 || err != nil || old.changed.Load() {
		t.Errorf("the server has %d keys, %v, and etcd was asked for a change: %t; want nothing changed", keys, err, old.changed.Load())
	}
}

// TestFleetOnEtcdRefused has URLs with which etcd cannot be reached.
func TestFleetOnEtcdRefused(t *testing.T) {
	t.Parallel()
	plain, locked, frozen := etcdtest.Start(t, etcdtest.Options{Members: 1}), etcdtest.Start(t, etcdtest.Options{Members: 1}), etcdtest.Start(t, etcdtest.Options{Members: 1})
	lock(t, locked.Members[0].Client(t))
	frozen.Members[0].Freeze()
	t.Cleanup(frozen.Members[0].Thaw)
	folder := t.TempDir()
	authority := redistest.Certify(t, folder, "authority", nil)
	redistest.Certify(t, folder, "server", authority, "localhost")
	redistest.Certify(t, folder, "stranger", nil)
	secure := etcdtest.Start(t, etcdtest.Options{Members: 1, Secure: true, Args: []string{
		"--cert-file", filepath.Join(folder, "server.pem"), "--key-file", filepath.Join(folder, "server.key"),
	}})
	ca := func(name string) string { return "?ca=" + url.QueryEscape(filepath.Join(folder, name+".pem")) }
	as := func(login, url string) string { return strings.Replace(url, "://", "://"+login+"@", 1) }
	tls := func(url string) string { return strings.Replace(url, "etcd://127.0.0.1", "etcds://localhost", 1) }
	for _, tc := range []struct {
		name, url          string
		exit               int
		code, says, advice string
	}{
		{"the right user", as("millrace:secret", locked.URL("f")), 1, "not_found", "there is no fleet", "fleet init"},
		{"a wrong password", as("millrace:secret1", locked.URL("f")), 1, "no_permission", "user and the password", "etcd://USER:PASSWORD@"},
		{"no user", locked.URL("f"), 1, "no_permission", "user", "etcd://USER:PASSWORD@"},
		{"a user without the prefix", as("other:secret", locked.URL("f")), 1, "no_permission", "may not use", "grant-permission"},
		{"TLS", tls(secure.URL("f")) + ca("authority"), 1, "not_found", "there is no fleet", "fleet init"},
		{"TLS of a stranger", tls(secure.URL("f")) + ca("stranger"), 1, "unavailable", "no secure connection", "ca=FILE"},
		{"TLS for another name", strings.Replace(tls(secure.URL("f")), "localhost", "127.0.0.1", 1) + ca("authority"), 1, "unavailable", "no secure connection", "ca=FILE"},
		{"TLS, not asked for", secure.URL("f"), 1, "unreachable", "does not answer", "etcds://"},
		{"no TLS", tls(plain.URL("f")), 1, "unavailable", "no secure connection", "etcd://"},
		{"nobody listens", "etcd://u:secret@127.0.0.1:1", 1, "unreachable", "127.0.0.1:1 does not answer: dial tcp", "Check that most members of etcd run"},
		{"a frozen member", as("u:secret", frozen.URL("f")), 1, "unreachable", frozen.Members[0].Addr() + " does not answer", "Check that most members of etcd run"},
		{"not etcd", "etcd://" + redistest.Start(t, redistest.Options{TCP: true}).Addr(), 1, "unreachable", "does not answer", "another kind of server"},
		{"no host", "etcd://u:secret@/f", 2, "bad_url", "without a host", "etcd://USER:PASSWORD@HOST"},
		{"a bad name", "etcd://u:secret@h/a/b", 2, "bad_url", "name of a fleet", "etcd://USER:PASSWORD@HOST"},
		{"an unknown parameter", "etcd://u:secret@h/f?addr=x", 2, "bad_url", `unknown parameter "addr"`, "etcd://USER:PASSWORD@HOST"},
		{"a missing file", "etcds://u:secret@h/f?ca=/nowhere", 2, "bad_url", "ca", "etcd://USER:PASSWORD@HOST"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"fleet", "show"}, {"fleet", "init", "--partition", "127.0.0.1:1"}, {"ick", "ls"}} {
				if args[1] == "init" && tc.exit == 1 {
					continue // which would go on, or wait as long as the others
				}
				began := time.Now()
				f := shell{t: t, url: tc.url}.refused(tc.exit, tc.code, args...)
				if took := time.Since(began); took > 2*directory.AnswerTimeout {
					t.Errorf("%v gave up after %s, want about %s", args, took, directory.AnswerTimeout)
				}
				if !strings.Contains(f.Error, tc.says) || !strings.Contains(f.Hint, tc.advice) {
					t.Errorf("%v says %q and %q, want %q and %q", args, f.Error, f.Hint, tc.says, tc.advice)
				}
				if strings.Contains(f.Error+f.Hint, "secret") || strings.Contains(f.Error, "\n") {
					t.Errorf("%v says %q, want one line and no password", args, f.Error)
				}
			}
		})
	}
}

// lock has etcd ask for users: millrace may use the keys of fleets, other may not.
func lock(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"root", "millrace", "other"} {
		do(c.UserAdd(ctx, user, "secret"))
		do(c.RoleAdd(ctx, user))
		do(c.UserGrantRole(ctx, user, user))
	}
	do(c.RoleGrantPermission(ctx, "millrace", "millrace/", clientv3.GetPrefixRangeEnd("millrace/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.AuthEnable(ctx))
}
