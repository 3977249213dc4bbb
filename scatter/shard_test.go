package scatter

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// javaHashes are keys with their String.hashCode in Java, which need no more than the
// formula: each can be done by hand.
var javaHashes = []struct {
	key  string
	hash int32
}{
	{"", 0},
	{"a", 97},
	{"ab", 97*31 + 98},
	{"Aa", 2112},
	{"BB", 2112},
	{"hello", 99162322},
	{"polygenelubricants", -2147483648}, // has no absolute value in 32 bits
	{"é", 233},
	{"€", 8364},
	{"\U0001F600", 0xD83D*31 + 0xDE00}, // a surrogate pair
	{"a\U0001F600", 97*31*31 + 0xD83D*31 + 0xDE00},
	{"\U0010FFFF", 0xDBFF*31 + 0xDFFF},
	{"\uFFFF", 0xFFFF},
}

// TestJavaHash compares hashes with those that Java computes.
func TestJavaHash(t *testing.T) {
	t.Parallel()
	for _, tt := range javaHashes {
		for _, n := range []int{1, 2, 3, 4, 7, 1000, 1 << 30} {
			positive := int64(tt.hash)
			if positive < 0 {
				positive = -positive
			}
			if got, want := JavaHash(tt.key, n), int(positive%int64(n)); got != want {
				t.Errorf("JavaHash(%q, %d) = %d, want %d", tt.key, n, got, want)
			}
		}
	}
	if got := JavaHash("polygenelubricants", 1000); got != 648 {
		t.Errorf("JavaHash of the smallest hash = %d, want 2147483648 modulo 1000", got)
	}
}

// inNode is Java's hash in JavaScript, whose strings have the same code units. It
// answers a list of keys and numbers of servers with where they go.
const inNode = `
const pairs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const shard = (key, n) => {
  let hash = 0;
  for (let i = 0; i < key.length; i++) hash = (31 * hash + key.charCodeAt(i)) | 0;
  return Math.abs(hash) % n;
};
console.log(JSON.stringify(pairs.map(([key, n]) => shard(key, n))));
`

// TestJavaHashInNode: a reader in another language finds the same servers.
func TestJavaHashInNode(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("this test needs node on PATH")
	}
	text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("aB\u00e9\u20ac\uffff\U0001F600\U0010FFFF"))))
	var pairs [][2]any
	for i, tt := range javaHashes {
		pairs = append(pairs, [2]any{tt.key, i + 1})
	}
	for seed := range 500 {
		if key := text.Example(seed); utf8.ValidString(key) {
			pairs = append(pairs, [2]any{key, seed%17 + 1})
		}
	}
	input, err := json.Marshal(pairs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", inNode)
	cmd.Stdin = strings.NewReader(string(input))
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var shards []int
	if err := json.Unmarshal(output, &shards); err != nil || len(shards) != len(pairs) {
		t.Fatalf("node answered %q: %v", output, err)
	}
	for i, pair := range pairs {
		if got, want := JavaHash(pair[0].(string), pair[1].(int)), shards[i]; got != want {
			t.Errorf("JavaHash(%q, %d) = %d, and in node %d", pair[0], pair[1], got, want)
		}
	}
}

// TestHashesSpread: each server gets its share of the keys.
func TestHashesSpread(t *testing.T) {
	t.Parallel()
	for name, shard := range map[string]func(string, int) int{"ringHash": ringHash, "JavaHash": JavaHash, "RoundRobin": RoundRobin()} {
		counts := make([]int, 4)
		for i := range 4000 {
			counts[shard(fmt.Sprint("session-", i), 4)]++
		}
		for i, n := range counts {
			if n < 800 || n > 1200 {
				t.Errorf("%s sends %d of 4000 keys to server %d", name, n, i)
			}
		}
	}
	for _, key := range []string{"", "x", "\xff", strings.Repeat("k", 1000)} {
		if a, b := ringHash(key, 5), ringHash(key, 5); a != b || a < 0 || a > 4 {
			t.Errorf("ringHash(%q, 5) = %d and %d", key, a, b)
		}
	}
	if got := ringHash("x", 1); got != 0 {
		t.Errorf("ringHash of one server = %d", got)
	}
}

// TestSticky: all goroutines of a process keep to one server as long as the number of
// servers is the same, and processes differ.
func TestSticky(t *testing.T) {
	t.Parallel()
	keep := sticky()
	shards := make([]int, 50)
	var calls sync.WaitGroup
	for i := range shards {
		calls.Go(func() { shards[i] = keep(fmt.Sprint(i), 1000) })
	}
	calls.Wait()
	for _, got := range shards {
		if got != shards[0] || got < 0 || got > 999 {
			t.Fatalf("servers = %v, want one", shards)
		}
	}
	if got := keep("", 1); got != 0 {
		t.Errorf("with one server: %d", got)
	}
	seen := map[int]bool{}
	for range 100 {
		seen[sticky()("", 4)] = true
	}
	if len(seen) != 4 {
		t.Errorf("100 processes use %d of 4 servers", len(seen))
	}
}
