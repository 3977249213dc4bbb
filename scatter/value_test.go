package scatter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEntriesComeBack packs bodies and takes the entries apart again, whatever is in
// them: also bytes that look compressed already.
func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Custom(func(t *rapid.T) []byte {
				return append([]byte(magic), rapid.SliceOf(rapid.Byte()).Draw(t, "rest")...)
			}),
			rapid.Custom(func(t *rapid.T) []byte {
				return []byte(pack(bytes.Repeat([]byte("a"), rapid.IntRange(0, 500).Draw(t, "n")), true))
			}),
			rapid.Custom(func(t *rapid.T) []byte {
				return bytes.Repeat([]byte("ab"), rapid.IntRange(0, 500).Draw(t, "n"))
			}),
		).Draw(t, "body")
		compress := rapid.Bool().Draw(t, "compress")
		packed := pack(body, compress)
		if compress && !bytes.HasPrefix(body, []byte(magic)) && len(packed) > len(body) {
			t.Errorf("%d bytes became %d", len(body), len(packed))
		}
		at, got, err := parseEntry(fmt.Sprint(1_714_564_800_123, " ", packed))
		if err != nil {
			t.Fatal(err)
		}
		if want := time.UnixMilli(1_714_564_800_123); !at.Equal(want) {
			t.Errorf("time = %v, want %v", at, want)
		}
		if !bytes.Equal(got, body) {
			t.Errorf("body = %q, want %q", got, body)
		}
	})
}

func TestGzipMakesShorter(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	body := []byte(strings.Repeat("impression ", 1000))
	for i, compress := range []bool{false, true} {
		sc := newScatter(t, servers, Config{Gzip: compress})
		key := fmt.Sprint("l", i)
		flush(t, sc, func(s *Session) { s.Push(key, 1, body) })
		entry := words(t, servers[0].Client(t), "LRANGE", key, "0", "0")[0]
		if short := len(entry) < len(body)/10; short != compress {
			t.Errorf("with Gzip %v an entry has %d bytes", compress, len(entry))
		}
		_, got, err := parseEntry(entry)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(body), string(got)); diff != "" {
			t.Errorf("body with Gzip %v (-want +got):\n%s", compress, diff)
		}
	}
}

// TestForeignEntries: text that is no entry is an error, and a small one that would become
// very long is not expanded.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	bomb := pack(make([]byte, maxBody+1), true)
	for _, entry := range []string{"", "body", "12", "x y", "1.5 y", " y", "1 " + magic, "1 " + magic + "rest", "1 " + bomb, "1 " + bomb[:100]} {
		if _, body, err := parseEntry(entry); err == nil {
			t.Errorf("parseEntry(%.20q) = %d bytes, want an error", entry, len(body))
		}
	}
	for entry, want := range map[string]string{"1 ": "", "-5 a b": "a b", "1  a": " a"} {
		if _, body, err := parseEntry(entry); err != nil || string(body) != want {
			t.Errorf("parseEntry(%q) = %q, %v, want %q", entry, body, err, want)
		}
	}
}
