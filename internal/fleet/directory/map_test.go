package directory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/ring"
)

// drawMap returns any map that can be used.
func drawMap(r *rapid.T) *Map {
	weights := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4)
	points, err := ring.New(weights.Draw(r, "weights")...)
	if err != nil {
		r.Fatal(err)
	}
	for range rapid.IntRange(0, 2).Draw(r, "growth") {
		if points, err = points.Add(weights.Draw(r, "more")...); err != nil {
			r.Fatal(err)
		}
	}
	millis := rapid.Map(rapid.Int64Range(0, 1_000_000), func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond })
	m := &Map{
		Version: Version,
		Fleet:   rapid.String().Draw(r, "fleet"),
		Epoch:   rapid.Int64Min(1).Draw(r, "epoch"),
		Floor:   rapid.Int64Min(0).Draw(r, "floor"),
		Settings: Settings{
			ViewTTL: millis.Draw(r, "view life"), ReplyTimeout: millis.Draw(r, "reply limit"), PlacementTTL: millis.Draw(r, "placement life"),
			MaxTags: rapid.Int64Min(0).Draw(r, "max tags"), MaxFill: rapid.IntRange(0, 100).Draw(r, "max fill"),
		},
		Points: points.Points(),
	}
	members := 0
	member := func() Member {
		members++
		return Member{
			Addr: fmt.Sprint(rapid.String().Draw(r, "host"), ":", members),
			Node: rapid.String().Draw(r, "node"),
			Down: rapid.Bool().Draw(r, "down"),
		}
	}
	for i := range len(points.Shares()) {
		p := Partition{
			ID: i, Epoch: rapid.Int64().Draw(r, "partition epoch"), Generation: rapid.IntRange(0, 9).Draw(r, "generation"),
			Phase:    rapid.SampledFrom([]Phase{LookUp, Open, Closed}).Draw(r, "phase"),
			ReadOnly: rapid.Bool().Draw(r, "read-only"), Master: member(),
		}
		for range rapid.IntRange(0, 2).Draw(r, "replicas") {
			p.Replicas = append(p.Replicas, member())
		}
		m.Partitions = append(m.Partitions, p)
	}
	return m
}

// TestParse: a map is read as it was stored.
func TestParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := drawMap(r)
		text, err := json.Marshal(m)
		if err != nil {
			r.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			r.Fatalf("the map that was read again (-want +got):\n%s", diff)
		}
	})
}

// TestText pins the text of a map, which other versions read.
func TestText(t *testing.T) {
	t.Parallel()
	m := sample(t, 7)
	m.Points = append(m.Points, ring.Point{Position: 1<<64 - 1, Partition: 2, Generation: 1})
	m.Partitions = append(m.Partitions, Partition{
		ID: 2, Epoch: 3, Generation: 1, Phase: LookUp, ReadOnly: true, Master: Member{Addr: "/run/c", Down: true},
	})
	m.Settings = Settings{ViewTTL: 1500 * time.Millisecond, ReplyTimeout: time.Millisecond, PlacementTTL: time.Minute, MaxTags: 5, MaxFill: 70}
	got, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "version": 1,
 "fleet": "sample",
 "epoch": 7,
 "floor": 1,
 "settings": {
  "view_life_ms": 1500,
  "reply_limit_ms": 1,
  "placement_life_ms": 60000,
  "max_tags": 5,
  "max_fill": 70
 },
 "partitions": [
  {
   "id": 0,
   "epoch": 1,
   "generation": 0,
   "phase": "open",
   "master": {
    "addr": "a:1",
    "node": "a"
   },
   "replicas": [
    {
     "addr": "b:1",
     "node": "b"
    }
   ]
  },
  {
   "id": 1,
   "epoch": 1,
   "generation": 0,
   "phase": "open",
   "master": {
    "addr": "b:2",
    "node": "b"
   }
  },
  {
   "id": 2,
   "epoch": 3,
   "generation": 1,
   "phase": "look-up",
   "read_only": true,
   "master": {
    "addr": "/run/c",
    "down": true
   }
  }
 ],
 "points": [
  {
   "at": "0000000000000000",
   "partition": 1,
   "generation": 0
  },
  {
   "at": "5555555555555555",
   "partition": 0,
   "generation": 0
  },
  {
   "at": "aaaaaaaaaaaaaaaa",
   "partition": 1,
   "generation": 0
  },
  {
   "at": "ffffffffffffffff",
   "partition": 2,
   "generation": 1
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the map's text (-want +got):\n%s", diff)
	}
	if again, err := Parse(got); err != nil || cmp.Diff(m, again) != "" {
		t.Errorf("Parse = %+v, %v, want the same map", again, err)
	}
}

// TestClone changes all of a clone, and expects the map to stay as it was.
func TestClone(t *testing.T) {
	t.Parallel()
	m, want := sample(t, 1), sample(t, 1)
	next := m.Clone()
	if diff := cmp.Diff(want, next); diff != "" {
		t.Fatalf("Clone (-want +got):\n%s", diff)
	}
	next.Epoch, next.Settings.MaxFill = 2, 1
	next.Points[0].Position++
	next.Partitions[0].ReadOnly = true
	next.Partitions[0].Master.Down = true
	next.Partitions[0].Replicas[0].Down = true
	next.Partitions[0].Replicas = append(next.Partitions[0].Replicas, Member{Addr: "x"})
	next.Partitions = append(next.Partitions, Partition{})
	next.Partitions[0].Members()[1].Addr = "y"
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("the map after its clone was changed (-want +got):\n%s", diff)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	p := sample(t, 1).Partitions[0]
	p.Replicas = slices.Grow(p.Replicas, 5)
	got := p.Members()
	if diff := cmp.Diff([]Member{{Addr: "a:1", Node: "a"}, {Addr: "b:1", Node: "b"}}, got); diff != "" {
		t.Errorf("Members (-want +got):\n%s", diff)
	}
	got[1].Addr = "x"
	if p.Replicas[0].Addr != "b:1" {
		t.Error("Members shares memory with the partition")
	}
}

// TestRefused breaks a map in each way, and expects that it is neither stored nor
// read.
func TestRefused(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	for name, c := range map[string]struct {
		spoil func(m *Map)
		want  error
		says  string
	}{
		"newer version": {func(m *Map) { m.Version = 2 }, ErrVersion, "version 2"},
		"no version":    {func(m *Map) { m.Version = 0 }, ErrVersion, "version 0"},
		"no points":     {func(m *Map) { m.Points = nil }, ErrMap, "0 points"},
		"two points at one place": {
			func(m *Map) { m.Points[1].Position = m.Points[0].Position }, ErrMap, "two are at",
		},
		"a partition without points": {
			func(m *Map) {
				m.Partitions = append(m.Partitions, Partition{ID: 2, Phase: Open, Master: Member{Addr: "c:1"}})
			}, ErrMap, "the ring has 2 partitions",
		},
		"points without a partition": {func(m *Map) { m.Partitions = m.Partitions[:1] }, ErrMap, "the list 1"},
		"partitions out of order": {
			func(m *Map) { slices.Reverse(m.Partitions) }, ErrMap, "partition 1 is at index 0",
		},
		"no phase":                   {func(m *Map) { m.Partitions[0].Phase = "" }, ErrMap, `the phase ""`},
		"unknown phase":              {func(m *Map) { m.Partitions[1].Phase = "shut" }, ErrMap, `partition 1 has the phase "shut"`},
		"master without an address":  {func(m *Map) { m.Partitions[1].Master.Addr = "" }, ErrMap, `partition 1 has a member at ""`},
		"replica without an address": {func(m *Map) { m.Partitions[0].Replicas[0].Addr = "" }, ErrMap, `partition 0 has a member at ""`},
		"one member twice in a partition": {
			func(m *Map) { m.Partitions[0].Replicas[0].Addr = "a:1" }, ErrMap, `partition 0 has a member at "a:1"`,
		},
		"one member in two partitions": {
			func(m *Map) { m.Partitions[1].Master.Addr = "b:1" }, ErrMap, `partition 1 has a member at "b:1"`,
		},
	} {
		m := sample(t, 1)
		c.spoil(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Parse = %v, want it to say %q", name, err, c.says)
		} else {
			wantError(t, name+": Parse", err, c.want)
		}
		wantError(t, name+": Change", d.Change(t.Context(), 0, m), c.want)
	}
	if n := integer(t, server.Client(t), "DBSIZE"); n != 0 {
		t.Errorf("a refused map left %d keys", n)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	valid, err := json.Marshal(sample(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, replacement string
		want             error
		says             string
	}{
		"cut off":             {`]}`, ``, ErrMap, "unexpected end"},
		"a decimal position":  {`"5555555555555555"`, `6148914691236517205`, ErrMap, "points.at"},
		"no hexadecimal":      {`"5555555555555555"`, `"555555555555555g"`, ErrMap, `"555555555555555g"`},
		"more than 64 bits":   {`"5555555555555555"`, `"15555555555555555"`, ErrMap, `"15555555555555555"`},
		"a negative position": {`"5555555555555555"`, `"-555555555555555"`, ErrMap, `"-555555555555555"`},
		"a textual duration":  {`"settings":{}`, `"settings":{"view_life_ms":"1s"}`, ErrMap, "view_life_ms"},
		"a newer version that looks different": {
			`"version":1,"fleet":"sample"`, `"version":2,"fleet":{"name":"sample"}`, ErrVersion, "version 2",
		},
	} {
		text := strings.Replace(string(valid), c.old, c.replacement, 1)
		if text == string(valid) {
			t.Fatalf("%s: the map does not have %q", name, c.old)
		}
		_, err := Parse([]byte(text))
		wantError(t, name, err, c.want)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Parse = %v, want it to say %q", name, err, c.says)
		}
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	for member, want := range map[Member]string{
		{Addr: "10.0.0.1:6379", Node: "n"}: "n",
		{Addr: "10.0.0.1:6379"}:            "10.0.0.1",
		{Addr: "[::1]:6379"}:               "::1",
	} {
		if got := member.Machine(); got != want {
			t.Errorf("%+v.Machine() = %q, want %q", member, got, want)
		}
	}
}

// TestParents: a map names the one that it was made from, by an identity that does not depend on
// the parent of that one, since agents of an older build drop parents from copies.
func TestParents(t *testing.T) {
	t.Parallel()
	m := sample(t, 7)
	next := m.Next()
	if next.Epoch != 8 || next.Parent != m.ID() || m.ID().Epoch != 7 {
		t.Errorf("the next map has epoch %d and the parent %v, want 8 and %v", next.Epoch, next.Parent, m.ID())
	}
	text, err := next.Pack()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Unpack(text)
	if err != nil {
		t.Fatal(err)
	}
	dropped := read.Clone()
	dropped.Parent = ID{}
	if read.Parent != next.Parent || read.ID() != next.ID() || dropped.ID() != next.ID() {
		t.Errorf("IDs are %v, read %v, without a parent %v, want the same", next.ID(), read.ID(), dropped.ID())
	}
	other := next.Clone()
	if other.Settings.MaxFill = 61; other.ID() == next.ID() {
		t.Errorf("maps with other settings have the same ID, %v", other.ID())
	}
}
