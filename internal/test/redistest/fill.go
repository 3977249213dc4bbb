package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// fillStep is how many keys one script call writes.
const fillStep = 20_000

// Fill writes n keys of no structure to a server, named foreign:0 and so on: a million in a
// second or two.
func Fill(t testing.TB, client rueidis.Client, n int) {
	t.Helper()
	const source = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'foreign:' .. i, 'x') end"
	for first := 0; first < n; first += fillStep {
		last := min(first+fillStep, n) - 1
		if err := client.Do(t.Context(), client.B().Eval().Script(source).Numkeys(0).
			Arg(strconv.Itoa(first), strconv.Itoa(last)).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatalf("%d foreign keys: %v", n, err)
		}
	}
}

// CPU returns how much time a server's threads have used, in microseconds.
func (s *Server) CPU() float64 {
	s.t.Helper()
	var sum float64
	for field, value := range s.Info("cpu") {
		if field == "used_cpu_user" || field == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Fatalf("INFO cpu: %v", err)
			}
			sum += seconds * 1e6
		}
	}
	return sum
}
