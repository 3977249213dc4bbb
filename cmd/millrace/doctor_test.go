package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redistest"
)

// levels returns the findings as check -> level.
func levels(findings []finding) map[string]level {
	m := make(map[string]level)
	for _, f := range findings {
		m[f.Check] = f.Level
	}
	return m
}

// examined runs the doctor and returns its report and exit code.
func examined(t *testing.T, url string) (report, int) {
	t.Helper()
	got := shell{t, url}.run("doctor", "--json")
	if got.stderr != "" || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("doctor = %+v, want one line on stdout", got)
	}
	var r report
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatal(err)
	}
	for _, node := range r.Nodes {
		for _, f := range node.Findings {
			if (f.Hint == "") != (f.Level == levelOK) {
				t.Errorf("finding %+v: want a hint unless all is well", f)
			}
			if f.Value == "" {
				t.Errorf("finding %+v: want a value", f)
			}
		}
	}
	return r, got.code
}

func TestDoctorOnRealServers(t *testing.T) {
	t.Parallel()
	healthy := func(change map[string]level) map[string]level {
		want := map[string]level{
			"version": "ok", "eviction": "ok", "memory": "ok", "persistence": "ok",
			"replicas": "note", "scripts": "ok", "clock": "ok",
		}
		maps.Copy(want, change)
		return want
	}
	tests := []struct {
		name string
		opts redistest.Options
		code int
		want map[string]level
	}{
		{"fit", redistest.Options{AOF: true, MaxMemory: "64mb"}, 0, healthy(nil)},
		{"bare", redistest.Options{}, 0, healthy(map[string]level{"memory": "note", "persistence": "warn"})},
		{"evicting", redistest.Options{AOF: true, MaxMemory: "64mb", Policy: "allkeys-lru"}, 1, healthy(map[string]level{"eviction": "fail"})},
		{"volatile", redistest.Options{AOF: true, MaxMemory: "64mb", Policy: "volatile-ttl"}, 0, healthy(map[string]level{"eviction": "note"})},
		{"full", redistest.Options{AOF: true, MaxMemory: "1mb"}, 0, healthy(map[string]level{"memory": "warn"})},
		{"snapshots", redistest.Options{MaxMemory: "64mb", Args: []string{"--save", "3600 1"}}, 0, healthy(map[string]level{"persistence": "note"})},
		{"mute", redistest.Options{AOF: true, MaxMemory: "64mb", Args: []string{"--rename-command", "CONFIG", "", "--rename-command", "EVALSHA", ""}}, 1, healthy(map[string]level{"scripts": "fail"})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, code := examined(t, redistest.Start(t, test.opts).URL())
			if code != test.code || r.OK != (test.code == 0) || len(r.Nodes) != 1 {
				t.Fatalf("exit code %d, ok %t, %d nodes, want %d, %t, 1", code, r.OK, len(r.Nodes), test.code, test.code == 0)
			}
			if diff := cmp.Diff(test.want, levels(r.Nodes[0].Findings)); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDoctorWithoutInfo examines servers that say nothing of themselves.
func TestDoctorWithoutInfo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	client := server.Client(t)
	setUser := client.B().AclSetuser().Username("app").Rule("on", ">secret", "~*", "+@all", "-info", "-config").Build()
	if err := client.Do(t.Context(), setUser).Error(); err != nil {
		t.Fatal(err)
	}
	testSilent(t, strings.Replace(server.URL(), "redis://", "redis://app:secret@", 1))
	testSilent(t, "redis://"+miniredis.RunT(t).Addr())
}

func testSilent(t *testing.T, url string) {
	t.Helper()
	r, code := examined(t, url)
	if code != 0 || !r.OK {
		t.Errorf("exit code %d, ok %t, want 0, true", code, r.OK)
	}
	want := map[string]level{
		"version": "note", "eviction": "note", "memory": "note", "persistence": "note",
		"replicas": "note", "scripts": "ok", "clock": "ok",
	}
	if diff := cmp.Diff(want, levels(r.Nodes[0].Findings)); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
}

func TestDoctorOnReplicas(t *testing.T) {
	t.Parallel()
	set := redistest.Replicated(t, 1)
	redistest.Eventually(t, "the master counts its replica as in step", func() bool {
		r, _ := examined(t, set.Master.URL())
		return levels(r.Nodes[0].Findings)["replicas"] == levelOK
	})
	r, code := examined(t, set.Replicas[0].URL())
	if got := levels(r.Nodes[0].Findings)["replicas"]; got != levelFail || code != 1 {
		t.Errorf("a replica by itself: %q and exit code %d, want fail and 1", got, code)
	}
}

func TestDoctorOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 1)
	r, code := examined(t, cluster.URL())
	var got, want []string
	for _, node := range r.Nodes {
		got = append(got, node.Addr)
	}
	for _, master := range cluster.Nodes[:3] {
		want = append(want, master.Addr())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || code != 0 {
		t.Errorf("exit code %d, nodes (-want +got):\n%s", code, diff)
	}
	shell{t, cluster.URL()}.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")
}

func TestDoctorForPeople(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true, MaxMemory: "64mb", Policy: "allkeys-lru"})
	got := shell{t, server.URL()}.run("doctor")
	for _, part := range []string{
		server.Addr() + "\n", "\n  ok    version", "\n  fail  eviction     allkeys-lru\n                     A full server",
		"\nnot fit for work: 1 failure, 0 warnings\n",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("doctor does not print %q:\n%s", part, got.stdout)
		}
	}
	if got.code != 1 || got.stderr != "" {
		t.Errorf("doctor exits with %d and says %q, want 1 and nothing", got.code, got.stderr)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	type info = map[string]string
	tests := []struct {
		got   finding
		level level
		value string
	}{
		{checkVersion(info{"redis_version": "6.2.0"}), levelOK, "6.2.0"},
		{checkVersion(info{"redis_version": "10.0.1"}), levelOK, "10.0.1"},
		{checkVersion(info{"redis_version": "6.0.16"}), levelFail, "6.0.16"},
		{checkVersion(info{"redis_version": "5.0.14"}), levelFail, "5.0.14"},
		{checkVersion(info{"redis_version": "7.2.4", "valkey_version": "8.1.0"}), levelOK, "Valkey 8.1.0"},
		{checkVersion(info{"redis_version": "unstable"}), levelNote, "unknown"},
		{checkVersion(nil), levelNote, "unknown"},
		{checkEviction(info{"maxmemory_policy": "volatile-lru"}), levelNote, "volatile-lru"},
		{checkEviction(info{"maxmemory_policy": "allkeys-random"}), levelFail, "allkeys-random"},
		{checkMemory(info{"used_memory": "1572864", "maxmemory": "0"}), levelNote, "1.5 MB used, no limit"},
		{checkMemory(info{"used_memory": "79", "maxmemory": "100"}), levelOK, "79 B of 100 B used (79%)"},
		{checkMemory(info{"used_memory": "80", "maxmemory": "100"}), levelWarn, "80 B of 100 B used (80%)"},
		{checkPersistence(info{"aof_enabled": "1"}, ""), levelOK, "append-only file"},
		{checkPersistence(info{"aof_enabled": "1", "aof_last_write_status": "err"}, ""), levelFail, "the append-only file cannot be written"},
		{checkPersistence(info{"aof_enabled": "1", "aof_last_bgrewrite_status": "err"}, ""), levelWarn, "the last rewrite of the append-only file failed"},
		{checkPersistence(info{"aof_enabled": "0", "rdb_last_bgsave_status": "err"}, "3600 1"), levelFail, "the last snapshot failed"},
		{checkPersistence(info{"aof_enabled": "0", "rdb_changes_since_last_save": "7"}, "3600 1"), levelNote, "snapshots only, 7 changes since the last"},
		{checkPersistence(info{"aof_enabled": "0"}, "unknown"), levelNote, "no append-only file; snapshots unknown"},
		{checkPersistence(info{"aof_enabled": "0"}, ""), levelWarn, "none"},
		{checkReplicas(info{"role": "master", "connected_slaves": "0", "slave_repl_offset": "5"}), levelNote, "none"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=online,lag=1", "slave1": "ip=b,port=1,state=online,lag=0"}), levelOK, "2, greatest lag 1s"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=online,lag=11"}), levelWarn, "1, greatest lag 11s"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=wait_bgsave,lag=0"}), levelWarn, "1, greatest lag 0s, 1 not in step"},
	}
	for _, test := range tests {
		if test.got.Level != test.level || test.got.Value != test.value {
			t.Errorf("%s = %s %q, want %s %q", test.got.Check, test.got.Level, test.got.Value, test.level, test.value)
		}
	}
}

func TestCompareClocks(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	tests := []struct {
		skew, trip time.Duration
		level      level
		value      string
	}{
		{0, 100 * time.Microsecond, levelOK, "in step with this machine's, within 50µs"},
		{800 * time.Millisecond, 2 * time.Millisecond, levelOK, "800ms ahead of this machine's, within 1ms"},
		{-3 * time.Second, 2 * time.Millisecond, levelWarn, "3s behind this machine's, within 1ms"},
		{1100 * time.Millisecond, 400 * time.Millisecond, levelOK, "1s ahead of this machine's, within 200ms"},
		{90 * time.Second, 0, levelWarn, "1m30s ahead of this machine's, within 0s"},
	}
	for _, test := range tests {
		got := compareClocks(start.Add(test.trip/2).Add(test.skew), start, start.Add(test.trip))
		if got.Level != test.level || got.Value != test.value {
			t.Errorf("skew %s, round trip %s = %s %q, want %s %q", test.skew, test.trip, got.Level, got.Value, test.level, test.value)
		}
	}
}
