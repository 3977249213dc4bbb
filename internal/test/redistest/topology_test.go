package redistest

import (
	"testing"

	"github.com/redis/rueidis"
)

func TestReplicatedCarriesWrites(t *testing.T) {
	t.Parallel()
	r := Replicated(t, 2)
	c := r.Master.Client(t)
	// In one pipeline: WAIT waits for the writes of its own connection.
	n, err := c.DoMulti(t.Context(), c.B().Set().Key("k").Value("v").Build(),
		c.B().Wait().Numreplicas(2).Timeout(5000).Build())[1].AsInt64()
	if err != nil || n != 2 {
		t.Fatalf("WAIT = %d, %v, want 2 replicas", n, err)
	}
	for _, replica := range r.Replicas {
		if got, want := get(t, replica.Client(t), "k"), "v"; got != want {
			t.Errorf("GET on replica %s = %q, want %q", replica.Addr(), got, want)
		}
	}
	r.Replicas[0].Restart()
	r.AwaitLinks(t)
}

func TestClusterServesAndFailsOver(t *testing.T) {
	t.Parallel()
	cluster := Cluster(t, 3, 1)
	c := cluster.Client(t)
	owners := make(map[*Server]bool)
	for _, key := range []string{"a", "b", "c", "{a}1", "{a}2"} {
		set(t, c, key, "v")
		owners[cluster.MasterOf(key)] = true
	}
	if got, want := len(owners), 3; got != want {
		t.Errorf("the keys a, b and c live on %d masters, want %d", got, want)
	}
	if a, b := cluster.MasterOf("{a}1"), cluster.MasterOf("{a}2"); a != b {
		t.Errorf("keys of one tag live on %s and %s, want one master", a.Addr(), b.Addr())
	}

	old := cluster.MasterOf("a")
	now := cluster.Failover("a")
	if now == old {
		t.Errorf("after Failover the master of a is still %s", old.Addr())
	}
	Eventually(t, "the client finds the new master", func() bool {
		return c.Do(t.Context(), c.B().Set().Key("a").Value("w").Build()).Error() == nil
	})
	if got, want := get(t, now.Client(t, single), "a"), "w"; got != want {
		t.Errorf("GET a at the new master = %q, want %q", got, want)
	}

	cluster.Rejoin()
	set(t, c, "a", "x")
	cluster.AwaitSynced("a")
	if got, want := cluster.Failover("a"), old; got != want {
		t.Errorf("second Failover = %s, want the node that rejoined, %s", got.Addr(), want.Addr())
	}
	if got, want := get(t, old.Client(t, single), "a"), "x"; got != want {
		t.Errorf("GET a at the node that rejoined = %q, want %q", got, want)
	}
}

// single has a client talk to the one server it was given.
func single(opt *rueidis.ClientOption) { opt.ForceSingleClient = true }

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	s := Sentinels(t, 2)
	c := s.Client(t)
	set(t, c, "k", "v")
	if got, want := s.Master(), s.Data[0]; got != want {
		t.Fatalf("Master() = %v, want the first data server", got)
	}
	now := s.Failover()
	if now == s.Data[0] {
		t.Error("Failover returned the dead master")
	}
	Eventually(t, "the client finds the new master", func() bool {
		return c.Do(t.Context(), c.B().Set().Key("k").Value("w").Build()).Error() == nil
	})
	if got, want := get(t, now.Client(t), "k"), "w"; got != want {
		t.Errorf("GET k at the new master = %q, want %q", got, want)
	}

	s.Rejoin()
	set(t, c, "k", "x")
	s.AwaitSynced()
	third := s.Failover()
	if third == now {
		t.Error("the second Failover returned the dead master")
	}
	if got, want := get(t, third.Client(t), "k"), "x"; got != want {
		t.Errorf("GET k at the third master = %q, want %q", got, want)
	}
}
