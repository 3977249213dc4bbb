package reqid_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// remember keeps "done ID" for each of the ids ARGV[2]..ARGV[3] at the time
// ARGV[1] in microseconds; recall answers with what is remembered for one. The ids
// begin with a letter that has each of them look whether it is time to turn.
const (
	prelude  = "local req, req_before = KEYS[1] .. ':req', KEYS[1] .. ':req_before'"
	remember = "for id = ARGV[2], ARGV[3] do reqid_remember(string.format('A%d', id), 'done ' .. id, tonumber(ARGV[1])) end"
	recall   = "return reqid_recall('A' .. ARGV[1])"
)

func TestAnswersAreKeptForAWindow(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	run := script.Runner{Client: client}
	write := script.New("test.remember", remember, prelude, reqid.Fragment)
	read := script.New("test.recall", recall, prelude, reqid.Fragment)

	const second, minute = int64(1e6), int64(60e6)
	base := int64(1_700_000_000_000_000)
	for _, tt := range []struct {
		name      string
		write     func(put func(at int64, first, last int))
		known     []int
		forgotten []int
	}{
		{"the same moment", func(put func(int64, int, int)) { put(base, 1, 3) }, []int{1, 2, 3}, []int{4}},
		{"after a minute", func(put func(int64, int, int)) {
			put(base, 1, 1)
			put(base+minute+second, 2, 2)
		}, []int{1, 2}, nil},
		{"after two minutes", func(put func(int64, int, int)) {
			put(base, 1, 1)
			put(base+minute+second, 2, 2)
			put(base+minute+2*second, 3, 3)
			put(base+2*minute+3*second, 4, 4)
		}, []int{3, 4}, []int{1, 2}},
		{"after 10,000 others", func(put func(int64, int, int)) { put(base, 1, 10_001) }, []int{1, 5000, 10_001}, nil},
		{"after 20,000 others", func(put func(int64, int, int)) {
			put(base, 1, 10_000)
			put(base, 10_001, 20_001)
		}, []int{10_001, 20_001}, []int{1, 10_000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key := "{" + redistest.Name(t) + "}"
			tt.write(func(at int64, first, last int) {
				if _, err := run.Run(t.Context(), write, key, fmt.Sprint(at), strconv.Itoa(first), strconv.Itoa(last)); err != nil {
					t.Fatal(err)
				}
			})
			get := func(id int) string {
				reply, err := run.Run(t.Context(), read, key, strconv.Itoa(id))
				if err != nil {
					t.Fatal(err)
				}
				text, _ := reply.ToString()
				return text
			}
			for _, id := range tt.known {
				if got, want := get(id), fmt.Sprint("done ", id); got != want {
					t.Errorf("answer to %d = %q, want %q", id, got, want)
				}
			}
			for _, id := range tt.forgotten {
				if got := get(id); got != "" {
					t.Errorf("answer to %d = %q, want none: the window is over", id, got)
				}
			}
			for _, part := range []string{":req", ":req_before"} {
				n, err := client.Do(t.Context(), client.B().Hlen().Key(key+part).Build()).AsInt64()
				if err != nil || n > 10_002 {
					t.Errorf("%s holds %d, %v, want it bounded", part, n, err)
				}
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	if a, b := reqid.New(), reqid.New(); a == b || len(a) != 26 {
		t.Errorf("ids %q and %q, want two different ones of 26 letters", a, b)
	}
}
