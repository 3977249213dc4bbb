package ick

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

func openChannel(t *testing.T, client rueidis.Client, name string, cfg ChannelConfig) *Channel {
	t.Helper()
	c, err := NewChannel(client, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// digit picks the Ick by the member's last digit, so that tests choose it.
func digit(member string, size int) int { return int(member[len(member)-1]-'0') % size }

// layoutOf returns the waiting members of each Ick up to the last one used, parted
// by bars.
func layoutOf(t *testing.T, c *Channel, icks int) string {
	t.Helper()
	var parts []string
	for index := range icks {
		k, err := c.ick(index)
		if err != nil {
			t.Fatal(err)
		}
		members, err := do(t, c.run.Client, "ZRANGE", key(k.Name(), keyPset), "0", "-1").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(members)
		parts = append(parts, strings.Join(members, " "))
	}
	return strings.Join(parts, "|")
}

func TestShardKeepsItsVectors(t *testing.T) {
	t.Parallel()
	var file struct {
		Vectors []struct {
			Member []byte `json:"member_base64"` //nolint:tagliatelle // the file is for every language
			CRC32  string
			Of     map[string]int
		}
	}
	text, err := os.ReadFile("testdata/shard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, v := range file.Vectors {
		for text, want := range v.Of {
			size, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := shard(string(v.Member), size); got != want {
				t.Errorf("shard(%q, %d) = %d, want %d", v.Member, size, got, want)
			}
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("the file has %d vectors, want many", checked)
	}
}

func TestShardSpreadsEvenly(t *testing.T) {
	t.Parallel()
	const members, size = 100_000, 16
	var count [size]int
	for i := range members {
		count[shard("document:"+strconv.Itoa(i), size)]++
	}
	for index, n := range count {
		if mean := members / size; n < mean*95/100 || n > mean*105/100 {
			t.Errorf("Ick %d has %d of %d members, want about %d", index, n, members, mean)
		}
	}
}

func TestChannelArguments(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*millrace.Error{
		"": millrace.ErrBadName, strings.Repeat("x", 508): millrace.ErrBadName, "a{b}": millrace.ErrBadName, "a}": millrace.ErrBadName, "a\n": millrace.ErrBadName,
		strings.Repeat("x", 507): nil, "docs": nil,
	} {
		_, err := NewChannel(nil, name, ChannelConfig{})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("NewChannel(%.10q...) = %v, want %v", name, err, want)
		}
	}
	for _, cfg := range []ChannelConfig{{Size: -1}, {Size: maxSize + 1}, {Ick: Config{Settle: -1}}, {Consumer: strings.Repeat("x", 65)}} {
		_, err := NewChannel(nil, "x", cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{
		Shard: func(string, int) int { return 4 },
	})
	ctx := t.Context()
	_, err := c.Add(ctx, Entry{"a", 1})
	wantError(t, err, millrace.ErrBadArgument)
	_, err = c.AddNow(ctx, "a")
	wantError(t, err, millrace.ErrBadArgument)
	wantError(t, c.Resize(ctx, 0), millrace.ErrBadArgument)
	wantError(t, c.Consume(ctx, ConsumeConfig{Batch: -1}, nil), millrace.ErrBadArgument)
}

func TestChannelAddFoldsInEachIck(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Size: 3, Shard: digit})
	ctx := t.Context()
	_, err := c.Stats(ctx)
	wantError(t, err, millrace.ErrNotFound)
	added, err := c.Add(ctx, Entry{"a0", 5}, Entry{"b1", 5}, Entry{"c0", 5}, Entry{"d1", 5}, Entry{"e2", 5})
	want(t, "add", added, Added{New: 5}, err)
	added, err = c.Add(ctx, Entry{"a0", 9}, Entry{"b1", 3}, Entry{"f3", 1})
	want(t, "add again", added, Added{New: 1, Lowered: 1}, err)
	added, err = c.AddNow(ctx, "a0")
	want(t, "add now", added, Added{}, err)
	want(t, "layout", layoutOf(t, c, 3), "a0 c0 f3|b1 d1|e2", nil)

	s, err := c.Stats(ctx)
	if err != nil || s.Size != 3 || s.Total != 6 || s.Distinct != 6 || len(s.Icks) != 3 || s.Icks[1].Waiting.Size != 2 ||
		s.Icks[2].Name != c.Name()+"/2" || s.OldestAge == 0 || s.Counters.New != 6 || s.Consumers != 0 {
		t.Errorf("stats = %+v, %v", s, err)
	}
	other := openChannel(t, c.run.Client, c.Name(), ChannelConfig{Size: 9, Shard: digit})
	added, err = other.Add(ctx, Entry{"e2", 1}) // a channel that exists keeps its size
	want(t, "add elsewhere", added, Added{Lowered: 1}, err)

	lost, err := c.Delete(ctx)
	want(t, "delete", lost, 6, err)
	lost, err = c.Delete(ctx)
	want(t, "delete again", lost, 0, err)
	if left := do(t, c.run.Client, "KEYS", "*"+c.Name()+"*"); left.Error() != nil {
		t.Error(left.Error())
	} else if keys, err := left.AsStrSlice(); err != nil || len(keys) != 0 {
		t.Errorf("delete left %v, %v", keys, err)
	}
}

// The gem's programs see Icks like any other.
func TestAChannelsIcksAreIcks(t *testing.T) {
	t.Parallel()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{Shard: digit})
	if _, err := c.Add(t.Context(), Entry{"a3", 1}); err != nil {
		t.Fatal(err)
	}
	k := openOn(t, c.run.Client, c.Name()+"/3", Config{})
	wantReserve(t, k, 5, "a31")
}

// An Ick under the channel's own name would have no consumer.
func TestAChannelsNameIsNoIck(t *testing.T) {
	t.Parallel()
	client, name := redistest.Shared(t).Client(t), redistest.Name(t)
	before := openOn(t, client, name+"before", Config{})
	if _, err := before.AddNow(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, channel := range []string{name, before.Name()} {
		if _, err := openChannel(t, client, channel, ChannelConfig{}).AddNow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := openOn(t, client, name, Config{}).AddNow(t.Context(), "a")
	if wantError(t, err, millrace.ErrBadName); !strings.Contains(millrace.Hint(err), name+"/0, "+name+"/1 ") {
		t.Errorf("hint = %q, want it to name the channel's Icks", millrace.Hint(err))
	}
	if n, err := client.Do(t.Context(), client.B().Exists().Key(keys(name)...).Build()).AsInt64(); n != 0 || err != nil {
		t.Errorf("%d keys of the Ick are there, %v", n, err)
	}
	if _, err := before.AddNow(t.Context(), "b"); err != nil {
		t.Errorf("an Ick that was there before the channel = %v", err)
	}
}

func TestWrongTypesInAChannelAreRefused(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for part, command := range map[string][]string{
		"":         {"SET", "KEY", "x"},
		":members": {"SET", "KEY", "x"},
		":owners":  {"SET", "KEY", "x"},
		"version":  {"HSET", "KEY", "version", "2"},
		"no":       {"HSET", "KEY", "size", "2"},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c := openChannel(t, client, redistest.Name(t), ChannelConfig{})
			suffix := ""
			wanted := millrace.ErrBroken
			switch part {
			case "version":
				wanted = millrace.ErrVersion
			case "no":
			default:
				suffix = part
			}
			command := slices.Clone(command)
			command[1] = channelKey(c.Name()) + suffix
			if err := do(t, client, command...).Error(); err != nil {
				t.Fatal(err)
			}
			dump := func() string {
				text, err := do(t, client, "DUMP", command[1]).ToString()
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := dump()
			_, err := c.AddNow(t.Context(), "a")
			wantError(t, err, wanted)
			_, err = c.Stats(t.Context())
			wantError(t, err, wanted)
			wantError(t, c.Resize(t.Context(), 2), wanted)
			wantError(t, c.Consume(t.Context(), ConsumeConfig{}, nil), wanted)
			if dump() != before {
				t.Error("a refused call changed the key")
			}
		})
	}
}

// TestChannelOnAFullServer: a call that makes a channel is refused; calls that drain one
// work.
func TestChannelOnAFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Policy: "noeviction"})
	client := server.Client(t)
	limit := func(bytes string) {
		t.Helper()
		if err := do(t, client, "CONFIG", "SET", "maxmemory", bytes).Error(); err != nil {
			t.Fatal(err)
		}
	}
	c := openChannel(t, client, "x", ChannelConfig{Size: 4, Shard: digit})
	if _, err := c.AddNow(t.Context(), "a0", "b1", "c2", "d3"); err != nil {
		t.Fatal(err)
	}
	if err := c.Resize(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	limit("1")
	_, err := openChannel(t, client, "fresh", ChannelConfig{}).AddNow(t.Context(), "a")
	wantError(t, err, millrace.ErrFull)
	wantError(t, c.Resize(t.Context(), 8), millrace.ErrFull)
	crowd := newCrowd(t, c)
	crowd.join()
	crowd.settles(2) // it joined, worked off all four and retired two
	crowd.leave(0)
	if got := crowd.processed(); got != "a0 b1 c2 d3" {
		t.Errorf("processed %q on a full server, want all", got)
	}
	limit("0")
	unready := openChannel(t, client, "x", ChannelConfig{})
	unready.run.Scripts = scripttest.Without(t, channelLibrary, "redis.call('ZREMRANGEBYSCORE', members, '-inf', now)", "")
	limit("1")
	err = (&member{channel: unready, token: "x"}).attend(t.Context(), nil)
	wantError(t, err, millrace.ErrFull) // the first write is there for that
}

// TestChannelLostReplies loses the reply of each call on a channel after the
// server did the work.
func TestChannelLostReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	client := proxy.Client(t)
	c := openChannel(t, client, redistest.Name(t), ChannelConfig{Size: 2, Shard: digit})
	k, err := c.ick(1)
	if err != nil {
		t.Fatal(err)
	}
	scripttest.Load(t, client, library)
	scripttest.Load(t, client, channelLibrary)
	ctx := t.Context()
	m := &member{channel: c, token: "me", serving: map[int]*serving{}}
	show := func() string {
		t.Helper()
		seen, err := c.served(ctx)
		if err != nil {
			t.Fatal(err)
		}
		owners := make([]string, len(seen.Icks))
		for i, one := range seen.Icks {
			owners[i] = one.Owner
		}
		return fmt.Sprintf("%d %q", seen.Size, owners)
	}
	attend := func() error {
		_, err := c.call(ctx, "attend", append(append([]string{m.token, "5000"}, c.known().args()...), "0")...)
		return err
	}
	for i, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"channel", func() error { _, err := c.reload(ctx); return err }, `2 ["" ""]`},
		{"attend", attend, `2 ["me" "me"]`},
		{"resize", func() error { return c.Resize(ctx, 3) }, `3 ["me" "me" ""]`},
		{"attend again", attend, `3 ["me" "me" "me"]`},
		{"leave", func() error { _, err := c.call(ctx, "leave", m.token); return err }, `3 ["" "" ""]`},
		{"retire", func() error { _, err := k.retire(ctx, 7); return err }, `3 ["" "" ""]`},
		{"reopen", func() error { return k.reopen(ctx, 8) }, `3 ["" "" ""]`},
	} {
		proxy.DropReply(evalsha)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := proxy.Dropped(); got != i+1 {
			t.Fatalf("%s: %d replies lost, want %d", step.what, got, i+1)
		}
		if diff := cmp.Diff(step.want, show()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	proxy.DropReply(evalsha)
	if _, err := c.Delete(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestListChannels finds channels by their own keys, not by those of their Icks.
func TestListChannels(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	base := redistest.Name(t)
	wanted := map[string]bool{base: true, base + "/0": true}
	for name := range wanted {
		if _, err := openChannel(t, client, name, ChannelConfig{Size: 2}).AddNow(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
	}
	wantAdd(t, openOn(t, client, base+"-alone/0", Config{}), "a1", 1, 0)

	found := map[string]bool{}
	for name, err := range ListChannels(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, base) {
			found[name] = true
		}
	}
	if diff := cmp.Diff(wanted, found); diff != "" {
		t.Errorf("ListChannels (-want +got):\n%s", diff)
	}
}
