package script_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// packing packs numbers after a write.
var packing = script.Load(fstest.MapFS{
	"pack.lua": {Data: []byte(`-- test.pack(K) number text -> {writes, packed, number, text}
redis.call('INCR', K)
local packed = struct.pack('<dc3d', ARGV[1] + 0, ARGV[2], 0.5)
local number, text, half = struct.unpack('<dc3d', packed)
return {redis.call('GET', K), packed, string.format('%.17g', number), text .. half}`)},
}, "K:")

// TestStruct: servers without the library struct get the same answers, by one run.
func TestStruct(t *testing.T) {
	t.Parallel()
	real := redistest.Start(t, redistest.Options{}).Client(t)
	imitation, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{miniredis.RunT(t).Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imitation.Close)
	numbers := []string{"0", "1", "-1", "0.1", "-1234.5678", "1e15", "1e-300", "1e300", "9007199254740993", "20000003.5", "1764187200000"}
	answers := func(client rueidis.Client) (all []string) {
		run := script.Runner{Scripts: packing, Client: client}
		for _, number := range numbers {
			reply, err := run.Run(t.Context(), "pack", "k", number, "abc")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, reply.Text()+" "+reply.Text()+" "+reply.Text()+" "+reply.Text())
			if reply.Err() != nil {
				t.Fatal(reply.Err())
			}
		}
		return all
	}
	want := answers(real)
	for i, got := range answers(imitation) {
		if got != want[i] {
			t.Errorf("%s without struct: %q, want %q as a server has it", numbers[i], got, want[i])
		}
	}
	if source := packing.Script("pack").Source(); strings.Contains(source, "frexp") {
		t.Errorf("servers with struct get the imitation, too: %s", source)
	}
}

func TestStructKeepsTheRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("struct.lua")
	if err != nil {
		t.Fatal(err)
	}
	scripttest.Check(t, script.Load(fstest.MapFS{
		"struct.lua": {Data: text},
		"pack.lua": {Data: []byte(`-- test.pack(K) -> text
--
-- Packs a number.
--
-- Needs    struct
-- KEYS[1]  K
-- ARGV     none
-- Reply    the packed number
-- Cost     O(1)
-- Repeat   harmless: it only reads
return struct.pack('<d', 1)`)},
	}, "K:"))
}
