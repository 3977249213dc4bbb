package shuffleshard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// vector is the entry of a key in testdata/vectors.json.
type vector struct {
	About  string
	Key    []byte `json:"key_base64"` //nolint:tagliatelle // the file is for every language
	Hash   string
	Scores map[int]string
	Shards map[string][]int // by "items/count"
}

// request asks for a shard, in Go and in JavaScript.
type request struct {
	Items, Count int
	Key          []byte
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	var file struct{ Vectors []vector }
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// sizes returns the request for each shard of a vector, and the shard.
func (v vector) sizes(t *testing.T) ([]request, [][]int) {
	t.Helper()
	var requests []request
	var shards [][]int
	for size, shard := range v.Shards {
		r := request{Key: v.Key}
		if _, err := fmt.Sscanf(size, "%d/%d", &r.Items, &r.Count); err != nil {
			t.Fatalf("%s: size %q: %v", v.About, size, err)
		}
		requests, shards = append(requests, r), append(shards, shard)
	}
	return requests, shards
}

func TestVectors(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, v := range readVectors(t) {
		hash := hashKey(string(v.Key))
		if got, want := fmt.Sprintf("%016x", hash), v.Hash; got != want {
			t.Errorf("%s: hash = %s, want %s", v.About, got, want)
		}
		for item, want := range v.Scores {
			if got := fmt.Sprintf("%016x", score(hash, item)); got != want {
				t.Errorf("%s: score of item %d = %s, want %s", v.About, item, got, want)
			}
		}
		requests, shards := v.sizes(t)
		for i, r := range requests {
			got, want := Get(r.Items, r.Count, string(r.Key)), shards[i]
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: Get(%d, %d) (-want +got):\n%s", v.About, r.Items, r.Count, diff)
			}
			checked++
		}
	}
	if got, least := checked, 200; got < least {
		t.Errorf("the file has %d shards, want %d and more", got, least)
	}
}

// TestKnownFunctions shows that the two functions are the ones that their names
// say, so that a port can use those of its language.
func TestKnownFunctions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := anyKey.Draw(t, "key")
		h := fnv.New64a()
		h.Write([]byte(key))
		if got, want := hashKey(key), h.Sum64(); got != want {
			t.Fatalf("hashKey(%q) = %x, want FNV-1a's %x", key, got, want)
		}
	})
	// The outputs of SplitMix64 that others publish for this seed.
	for item, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := score(1234567, item); got != want {
			t.Errorf("score of item %d = %d, want SplitMix64's %d", item, got, want)
		}
	}
}

// TestAnotherLanguageAgrees asks the implementation in JavaScript for the shards
// of all vectors and of random keys. A shard that hangs on one language's random
// numbers is Q25 in docs/DEFECTS.md.
func TestAnotherLanguageAgrees(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	var requests []request
	for _, v := range readVectors(t) {
		r, _ := v.sizes(t)
		requests = append(requests, r...)
	}
	for range 3000 {
		key := make([]byte, rand.IntN(40))
		for i := range key {
			key[i] = byte(rand.IntN(256))
		}
		requests = append(requests, request{rand.IntN(100), rand.IntN(10), key})
	}
	stdin, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), node, "--input-type=module", "--eval", `
		import { readFileSync } from "node:fs";
		import { get } from "./testdata/shuffleshard.mjs";
		const requests = JSON.parse(readFileSync(0, "utf8"));
		const shards = requests.map((r) => get(r.Items, r.Count, Buffer.from(r.Key, "base64")));
		console.log(JSON.stringify(shards));`)
	program.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	program.Stderr = &stderr
	stdout, err := program.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, &stderr)
	}
	var shards [][]int
	if err := json.Unmarshal(stdout, &shards); err != nil {
		t.Fatal(err)
	}
	if got, want := len(shards), len(requests); got != want {
		t.Fatalf("node answers %d requests, want %d", got, want)
	}
	for i, r := range requests {
		if diff := cmp.Diff(Get(r.Items, r.Count, string(r.Key)), shards[i], cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Get(%d, %d, %q) (-Go +JavaScript):\n%s", r.Items, r.Count, r.Key, diff)
		}
	}
}

// findNode returns where node is. Without it the test is skipped, or fails when CI
// is set.
func findNode(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("this test needs node, and CI must not skip it; run internal/repo/scripts/test-deps: %v", err)
	}
	t.Skipf("this test needs node; run internal/repo/scripts/test-deps to install it: %v", err)
	return ""
}
