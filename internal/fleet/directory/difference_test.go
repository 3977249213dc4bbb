package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// id returns something like a run id or a replication id, which does not compress.
func id(n int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	return hex.EncodeToString(sum[:20])
}

// large returns a map of 160 partitions with a replica each.
func large(t testing.TB, epoch int64) *Map {
	t.Helper()
	r, err := ring.New(slices.Repeat([]int{1}, 160)...)
	if err != nil {
		t.Fatal(err)
	}
	m := &Map{Version: Version, Fleet: "large", Epoch: epoch, Floor: 1, Points: r.Points()}
	for i := range 160 {
		member := func(copy int) Member {
			n := (i + copy) % 14
			return Member{Addr: fmt.Sprintf("10.0.%d.%d:%d", copy, n, 7000+i), Node: fmt.Sprint("node-", n), Run: id(160*(1+copy) + i)}
		}
		m.Partitions = append(m.Partitions, Partition{
			ID: i, Epoch: 1, Phase: Open, History: id(i), Master: member(0), Replicas: []Member{member(1)},
		})
	}
	return m
}

// failover returns the map behind one in which a partition gets its replica as master.
func failover(m *Map, partition int) *Map {
	next := m.Clone()
	next.Epoch++
	p := &next.Partitions[partition]
	p.Epoch, p.Before, p.History = p.Epoch+1, p.History, id(int(-next.Epoch))
	p.Master, p.Replicas[0] = p.Replicas[0], p.Master
	return next
}

// TestDifferences: a difference makes one map of the other, whatever has changed.
func TestDifferences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		old := sample(t, 1)
		next := old.Clone()
		next.Epoch += rapid.Int64Range(1, 3).Draw(r, "epochs")
		if rapid.Bool().Draw(r, "settings") {
			next.Settings.MaxTags = 7
		}
		if rapid.Bool().Draw(r, "floor") {
			next.Floor = next.Epoch
		}
		if rapid.Bool().Draw(r, "parent") {
			next.Parent = old.ID()
		}
		for i := range next.Partitions {
			if rapid.Bool().Draw(r, "partition") {
				next.Partitions[i].Epoch++
				next.Partitions[i].Replicas = nil
			}
		}
		if rapid.Bool().Draw(r, "more") {
			grown, err := ring.New(1, 2, 3)
			if err != nil {
				r.Fatal(err)
			}
			next.Points = grown.Points()
			next.Partitions = append(next.Partitions, Partition{ID: 2, Epoch: 1, Phase: LookUp, Master: Member{Addr: "c:1"}})
		}
		text, err := pack(differ(held{old, "old", 7}, held{next, "next", 8}))
		if err != nil {
			r.Fatal(err)
		}
		plain, err := unpack(text)
		var change difference
		if err = errors.Join(err, json.Unmarshal(plain, &change)); err != nil {
			r.Fatal(err)
		}
		got, err := change.of(held{old, "old", 7})
		if diff := cmp.Diff(next, got.Map); err != nil || diff != "" {
			r.Fatalf("the difference makes (-want +got): %v\n%s", err, diff)
		}
		if _, err := change.of(held{old, "other", 7}); !errors.Is(err, ErrMap) {
			r.Fatalf("a difference for another map: %v, want ErrMap", err)
		}
	})
}

// sent returns how many bytes the server sends while do runs.
func sent(t *testing.T, server *redistest.Server, do func()) int {
	t.Helper()
	out := func() int {
		n, err := strconv.Atoi(server.Info("stats")["total_net_output_bytes"])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := out()
	self := out() - before // the bytes that asking itself sends
	do()
	return out() - before - 2*self
}

// TestConfirmationsSendNothing: a caller that has the map gets no map, and one that has an
// older map gets only the changes.
func TestConfirmationsSendNothing(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client, other := dial(t, server.Addr()), dial(t, server.Addr())
	m := large(t, 1)
	change(t, d, 0, m)
	whole, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	confirm := func(c *Directory, epoch int64) (got *Map) {
		t.Helper()
		got, err := c.Confirm(t.Context(), epoch)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := sent(t, server, func() { confirm(client, 0) })
	if first > len(whole)/3 {
		t.Errorf("the map was sent in %d bytes, want at most a third of %d", first, len(whole))
	}
	confirm(other, 0)
	if n := sent(t, server, func() { confirm(client, 1) }); n > 100 {
		t.Errorf("a confirmation sent %d bytes, want a few", n)
	}
	order := rand.Perm(160)
	for i := range 10 {
		next := failover(m, order[i])
		change(t, d, m.Epoch, next)
		m = next
	}
	n := sent(t, server, func() {
		if diff := cmp.Diff(m, confirm(client, 1)); diff != "" {
			t.Errorf("Confirm (-want +got):\n%s", diff)
		}
	})
	if n > 10*600 {
		t.Errorf("ten failovers were sent in %d bytes, want at most 600 each", n)
	}
	if n := sent(t, server, func() { confirm(client, 1) }); n > 100 {
		t.Errorf("a map that the client has was sent again, in %d bytes", n)
	}
	for i := range 40 { // more than are kept
		next := failover(m, order[i])
		change(t, d, m.Epoch, next)
		m = next
	}
	if diff := cmp.Diff(m, confirm(other, 1)); diff != "" {
		t.Errorf("Confirm of a map whose changes are not kept (-want +got):\n%s", diff)
	}
	if n := sent(t, server, func() { confirm(other, m.Epoch) }); n > 100 {
		t.Errorf("a confirmation sent %d bytes, want a few", n)
	}
}

// TestChangesOfAnotherMap: the directory lost a map, and another one got its epoch. A process
// that holds the lost map does not get the changes of the other one.
func TestChangesOfAnotherMap(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	client := dial(t, server.Addr())
	first := large(t, 1)
	change(t, d, 0, first)
	c := server.Client(t)
	stored, err := c.Do(t.Context(), c.B().Hgetall().Key(baseKey).Build()).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	lost := failover(first, 3)
	change(t, d, 1, lost)
	if _, err := client.Confirm(t.Context(), 1); err != nil { // it has the one to be lost
		t.Fatal(err)
	}
	must(t, c, "HSET", baseKey, "epoch", stored["epoch"], "map", stored["map"])
	again := failover(first, 4)
	change(t, dial(t, server.Addr()), 1, again)
	next := failover(again, 5)
	change(t, dial(t, server.Addr()), 2, next)
	got, err := client.Confirm(t.Context(), 2)
	wantMap(t, "Confirm", got, err, next)
}
