package ring

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"hash/crc64"
	"hash/fnv"
	"math"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
)

// hashes are functions to compare, each to a position on the ring. Those of 32
// bits are in its upper half.
var hashes = []struct {
	name     string
	position func(string) uint64
}{
	{"SHA-1, folded", Position},
	{"SHA-1, cut off", func(s string) uint64 {
		sum := sha1.Sum([]byte(s))
		return binary.BigEndian.Uint64(sum[:8])
	}},
	{"SHA-256, cut off", func(s string) uint64 { sum := sha256.Sum256([]byte(s)); return binary.BigEndian.Uint64(sum[:8]) }},
	{"MD5, cut off", func(s string) uint64 {
		sum := md5.Sum([]byte(s))
		return binary.BigEndian.Uint64(sum[:8])
	}},
	{"FNV-1a", func(s string) uint64 { h := fnv.New64a(); h.Write([]byte(s)); return h.Sum64() }},
	{"CRC-64 (ECMA)", func(s string) uint64 { return crc64.Checksum([]byte(s), crc64.MakeTable(crc64.ECMA)) }},
	{"CRC-32 (IEEE)", func(s string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(s))) << 32 }},
	{"Adler-32", func(s string) uint64 { return uint64(adler32.Checksum([]byte(s))) << 32 }},
	{"Java's hashCode", func(s string) uint64 {
		h := uint32(0)
		for _, c := range []byte(s) {
			h = 31*h + uint32(c)
		}
		return uint64(h) << 32
	}},
}

// address is the i-th of many identifiers that look like e-mail addresses:
// few domains, common names, numbers.
func address(i int) string {
	names := []string{"anna", "ben", "carla.m", "d", "eva-maria", "f.k", "george", "hello"}
	domains := []string{"example.com", "example.org", "mail.example.net"}
	return fmt.Sprintf("%s%d@%s", names[i%len(names)], i/len(names), domains[i%len(domains)])
}

// spread returns the deviation and the largest count of n addresses over
// 160 partitions, in parts of the mean, and how many times the deviation by
// chance it is.
func spread(r *Ring, n int, position func(string) uint64) (deviation, largest, chance float64) {
	counts := make([]int, len(r.Shares()))
	for i := range n {
		counts[r.Owner(position(address(i)))]++
	}
	mean, squares := float64(n)/float64(len(counts)), 0.0
	for _, count := range counts {
		squares += (float64(count) - mean) * (float64(count) - mean)
	}
	deviation = math.Sqrt(squares/float64(len(counts))) / mean
	return deviation, float64(slices.Max(counts)) / mean, deviation / math.Sqrt(1/mean)
}

// BenchmarkSpread prints how evenly hash functions spread a million addresses over
// 160 partitions. Chance alone gives a deviation of 1.26 percent of the mean.
func BenchmarkSpread(b *testing.B) {
	r := grown(b, 160)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nhash\tdeviation\tlargest/mean\ttimes chance\tns each")
	for _, h := range hashes {
		b.Run(h.name, func(b *testing.B) {
			for b.Loop() {
				h.position("alice@example.com")
			}
			deviation, largest, chance := spread(r, 1_000_000, h.position)
			fmt.Fprintf(table, "%s\t%.2f%%\t%.3f\t%.2f\t%.0f\n", h.name, 100*deviation, largest, chance,
				float64(b.Elapsed().Nanoseconds())/float64(b.N))
		})
	}
	if err := table.Flush(); err != nil {
		b.Fatal(err)
	}
}

// TestSpreadIsChance: the hash spreads addresses as evenly as chance would, and
// this test would notice one that does not.
func TestSpreadIsChance(t *testing.T) {
	t.Parallel()
	r := grown(t, 160)
	if _, _, chance := spread(r, users, Position); chance < 0.8 || chance > 1.2 {
		t.Errorf("the deviation is %.2f times that of chance, want about 1", chance)
	}
	if _, _, chance := spread(r, users, hashes[len(hashes)-2].position); chance < 10 {
		t.Errorf("the deviation of Adler-32 is %.2f times that of chance, want much more", chance)
	}
}

func BenchmarkPosition(b *testing.B) {
	for b.Loop() {
		Position("alice@example.com")
	}
}

func BenchmarkOwner(b *testing.B) {
	r := grown(b, 160, 160)
	position := uint64(0)
	for b.Loop() {
		r.Owner(position)
		position += 0x9e3779b97f4a7c15
	}
}
