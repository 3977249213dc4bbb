package survey

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadInfo(t *testing.T) {
	t.Parallel()
	const text = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:90\r\n\r\n# Memory\r\nused_memory:1000\r\nmaxmemory:2000\r\n" +
		"role:slave\r\nconnected_clients:3\r\ninstantaneous_ops_per_sec:4\r\nevicted_keys:5\r\nloading:0\r\n" +
		"rdb_last_bgsave_status:err\r\naof_last_write_status:ok\r\n"
	want := NodeView{
		Version: "Redis 7.0.15", Role: "slave", Uptime: 90 * time.Second,
		Memory: 1000, MaxMemory: 2000, Ops: 4, Clients: 3, Evicted: 5, SaveFails: true,
	}
	got, err := readInfo(text)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("readInfo: %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{text: "until a save succeeds", "aof_last_write_status:err\r\n": "its append-only file", "rdb_last_bgsave_status:ok\r\n": ""} {
		got, err := readInfo(text)
		if says := got.Unsaved(); err != nil || !strings.Contains(says, want) || (says == "") != (want == "") {
			t.Errorf("a server with %q %q, want %q", text, says, want)
		}
	}
	valkey, err := readInfo("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n")
	if want := "Valkey 8.0.1"; valkey.Version != want || err != nil {
		t.Errorf("readInfo of Valkey = %q, %v, want %q", valkey.Version, err, want)
	}
	if got, err := readInfo(""); got != (NodeView{}) || err != nil {
		t.Errorf("readInfo of nothing = %+v, %v", got, err)
	}
	if _, err := readInfo(text + "loading:1\r\n"); !errors.Is(err, errLoading) {
		t.Errorf("readInfo of one that loads = %v, want %v", err, errLoading)
	}
}
