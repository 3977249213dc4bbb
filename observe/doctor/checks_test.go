package doctor

import (
	"testing"
	"time"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	type info = map[string]string
	tests := []struct {
		got      Finding
		severity Severity
		value    string
	}{
		{checkVersion(info{"redis_version": "6.2.0"}), OK, "6.2.0"},
		{checkVersion(info{"redis_version": "10.0.1"}), OK, "10.0.1"},
		{checkVersion(info{"redis_version": "6.0.16"}), Critical, "6.0.16"},
		{checkVersion(info{"redis_version": "5.0.14"}), Critical, "5.0.14"},
		{checkVersion(info{"redis_version": "7.2.4", "valkey_version": "8.1.0"}), OK, "Valkey 8.1.0"},
		{checkVersion(info{"redis_version": "unstable"}), Note, "unknown"},
		{checkVersion(nil), Note, "unknown"},
		{checkEviction(info{"maxmemory_policy": "volatile-lru"}), Note, "volatile-lru"},
		{checkEviction(info{"maxmemory_policy": "allkeys-random"}), Critical, "allkeys-random"},
		{checkMemory(info{"used_memory": "1572864", "maxmemory": "0"}, false), Note, "1.5 MB used, no limit"},
		{checkMemory(info{"used_memory": "79", "maxmemory": "100"}, false), OK, "79 B of 100 B used (79%)"},
		{checkMemory(info{"used_memory": "80", "maxmemory": "100"}, false), Warning, "80 B of 100 B used (80%)"},
		{checkMemory(info{"used_memory": "80", "maxmemory": "100"}, true), OK, "80 B of 100 B used (80%)"},
		{checkPersistence(info{"aof_enabled": "1"}, ""), OK, "append-only file"},
		{checkPersistence(info{"aof_enabled": "1", "aof_last_write_status": "err"}, ""), Critical, "the append-only file cannot be written"},
		{checkPersistence(info{"aof_enabled": "1", "aof_last_bgrewrite_status": "err"}, ""), Warning, "the last rewrite of the append-only file failed"},
		{checkPersistence(info{"aof_enabled": "0", "rdb_last_bgsave_status": "err"}, "3600 1"), Critical, "the last snapshot failed"},
		{checkPersistence(info{"aof_enabled": "0", "rdb_changes_since_last_save": "7"}, "3600 1"), Note, "snapshots only, 7 changes since the last"},
		{checkPersistence(info{"aof_enabled": "0"}, "unknown"), Note, "no append-only file; snapshots unknown"},
		{checkPersistence(info{"aof_enabled": "0"}, ""), Warning, "none"},
		{checkReplicas(info{"role": "master", "connected_slaves": "0", "slave_repl_offset": "5"}), Note, "none"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=online,lag=1", "slave1": "ip=b,port=1,state=online,lag=0"}), OK, "2, greatest lag 1s"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=online,lag=11"}), Warning, "1, greatest lag 11s"},
		{checkReplicas(info{"role": "master", "slave0": "ip=a,port=1,state=wait_bgsave,lag=0"}), Warning, "1, greatest lag 0s, 1 not in step"},
	}
	for _, test := range tests {
		if test.got.Severity != test.severity || test.got.Text != test.value {
			t.Errorf("%s = %s %q, want %s %q", test.got.Check, test.got.Severity, test.got.Text, test.severity, test.value)
		}
	}
}

func TestCompareClocks(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	tests := []struct {
		skew, trip time.Duration
		severity   Severity
		value      string
	}{
		{0, 100 * time.Microsecond, OK, "in step with this machine's, within 50µs"},
		{800 * time.Millisecond, 2 * time.Millisecond, OK, "800ms ahead of this machine's, within 1ms"},
		{-3 * time.Second, 2 * time.Millisecond, Warning, "3s behind this machine's, within 1ms"},
		{1100 * time.Millisecond, 400 * time.Millisecond, OK, "1s ahead of this machine's, within 200ms"},
		{90 * time.Second, 0, Warning, "1m30s ahead of this machine's, within 0s"},
	}
	for _, test := range tests {
		got := compareClocks(start.Add(test.trip/2).Add(test.skew), start, start.Add(test.trip))
		if got.Severity != test.severity || got.Text != test.value {
			t.Errorf("skew %s, round trip %s = %s %q, want %s %q", test.skew, test.trip, got.Severity, got.Text, test.severity, test.value)
		}
	}
}
