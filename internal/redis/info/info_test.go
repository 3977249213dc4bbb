package info

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	f := Parse("# Server\r\nredis_version:7.2.4\r\n\r\n# CPU\r\nused_cpu_user:1.5\r\nslave_repl_offset:7\r\nslave0:ip=::1,port=1\r\nloading:1")
	if f["redis_version"] != "7.2.4" || f["slave0"] != "ip=::1,port=1" || f.Int("loading") != 1 || f.Float("used_cpu_user") != 1.5 {
		t.Errorf("Parse = %v", f)
	}
	if r := f.Replicas(); len(r) != 1 || r[0]["ip"] != "::1" || r[0].Int("port") != 1 {
		t.Errorf("Replicas = %v, want slave0 alone", r)
	}
	if f.Int("absent") != 0 || f.Int("redis_version") != 0 || f.Float("redis_version") != 0 {
		t.Errorf("numbers that are not there = %d, %d, %v, want 0", f.Int("absent"), f.Int("redis_version"), f.Float("redis_version"))
	}
}
