package directory

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
)

// TestExamine breaks what the durability of the map rests on, one thing after the other.
func TestExamine(t *testing.T) {
	t.Parallel()
	set := redistest.Replicated(t, 2)
	dial := func(servers ...*redistest.Server) *Redis {
		var option rueidis.ClientOption
		for _, s := range servers {
			option.InitAddress = append(option.InitAddress, s.Addr())
		}
		d, err := Dial(option)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	}
	d := dial(set.Master, set.Replicas[0], set.Replicas[1])
	config := func(s *redistest.Server, name, value string) func() {
		return func() {
			c := s.Client(t)
			if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	codes := func() (list []string) {
		for _, r := range d.Examine(t.Context()) {
			if code := string(r.Level) + " " + r.Code; !slices.Contains(list, code) {
				list = append(list, code)
			}
			if (r.Hint == "") != (r.Level == OK) || r.What == "" {
				t.Errorf("%+v has no hint", r)
			}
		}
		return list
	}
	for _, s := range append(set.Replicas, set.Master) {
		config(s, "appendonly", "yes")()
	}
	config(set.Master, "min-replicas-to-write", "1")()
	config(set.Master, "min-replicas-max-lag", "2")()
	nothing := func() {}
	for _, c := range []struct {
		name   string
		breaks func()
		want   string
		mends  func()
	}{
		{"nothing", nothing, "ok durable", nothing},
		{"no append-only file", config(set.Master, "appendonly", "no"), "fail no_aof", config(set.Master, "appendonly", "yes")},
		{"none on a replica", config(set.Replicas[0], "appendonly", "no"), "warn no_aof", config(set.Replicas[0], "appendonly", "yes")},
		{"lonely writes", config(set.Master, "min-replicas-to-write", "0"), "warn lonely_writes", config(set.Master, "min-replicas-to-write", "1")},
		{"it stops late", config(set.Master, "min-replicas-max-lag", "10"), "warn late_stop", config(set.Master, "min-replicas-max-lag", "2")},
		{"too few replicas", config(set.Master, "min-replicas-to-write", "3"), "fail too_few_replicas", config(set.Master, "min-replicas-to-write", "1")},
		{"eviction", config(set.Master, "maxmemory-policy", "allkeys-lru"), "fail evicts", config(set.Master, "maxmemory-policy", "noeviction")},
		{"Sentinels, and lonely writes", func() { d.sentinel = true; config(set.Master, "min-replicas-to-write", "0")() }, "fail lonely_writes",
			func() { d.sentinel = false; config(set.Master, "min-replicas-to-write", "1")() }},
		{"a silent server", set.Replicas[1].Pause, "warn silent", set.Replicas[1].Resume},
		{"a dead replica", set.Replicas[1].Kill, "warn one_replica", nothing},
		{"no replica", set.Replicas[0].Kill, "warn no_replica", nothing},
		{"no master", set.Master.Kill, "fail no_master", nothing},
	} {
		c.breaks()
		redistest.Eventually(t, c.name+": "+c.want, func() bool { return slices.Contains(codes(), c.want) })
		c.mends()
		if c.name == "a silent server" {
			redistest.Eventually(t, "it is back", func() bool { return slices.Equal(codes(), []string{"ok durable"}) })
		}
	}

	d = dial(redistest.Start(t, redistest.Options{TCP: true}), redistest.Start(t, redistest.Options{TCP: true}))
	if !slices.Contains(codes(), "fail two_masters") {
		t.Errorf("of two masters the remarks are %v", codes())
	}
}

func TestLeader(t *testing.T) {
	t.Parallel()
	d, err := Dial(rueidis.ClientOption{InitAddress: []string{redistest.Start(t, redistest.Options{TCP: true}).Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		agent string
		ttl   time.Duration
		want  string
	}{{"a", time.Hour, "a"}, {"b", time.Hour, "a"}, {"a", 0, ""}, {"b", time.Hour, "b"}} {
		if got, err := d.Leader(t.Context()); c.want == "a" && c.agent == "a" && (got != "" || err != nil) {
			t.Errorf("Leader of nobody = %q, %v", got, err)
		}
		if _, _, err := d.Lead(t.Context(), c.agent, c.ttl); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Leader(t.Context()); got != c.want || err != nil {
			t.Errorf("Leader after %s leads for %v = %q, %v, want %q", c.agent, c.ttl, got, err, c.want)
		}
	}
}
