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

// remember keeps "done ID" for each of the ids ARGV[1]..ARGV[2], with as many
// bytes behind as ARGV[3] says; recall answers with what is remembered for one;
// age makes the current hash as much older, in microseconds. The ids begin with a
// letter that has each of them look whether it is time to turn.
const (
	prelude  = "local req = KEYS[1] .. ':req'"
	remember = "for id = ARGV[1], ARGV[2] do reqid_remember(string.format('A%d', id), 'done ' .. id .. string.rep('.', ARGV[3])) end"
	recall   = "return reqid_recall('A' .. ARGV[1])"
	age      = "redis.call('HINCRBY', KEYS[1] .. ':req', 'since', -ARGV[1])"
)

func TestAnswersAreKeptForAWindow(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	run := script.Runner{Client: client}
	write := script.New("test.remember", remember, prelude, reqid.Fragment)
	read := script.New("test.recall", recall, prelude, reqid.Fragment)
	older := script.New("test.age", age)

	type step struct{ first, last, minutes, size int }
	for _, tt := range []struct {
		name      string
		steps     []step
		known     []int
		forgotten []int
	}{
		{"the same moment", []step{{first: 1, last: 3}}, []int{1, 2, 3}, []int{4}},
		{"after a minute", []step{{first: 1, last: 1, minutes: 1}, {first: 2, last: 2}}, []int{1, 2}, nil},
		{"after two minutes", []step{
			{first: 1, last: 1, minutes: 1}, {first: 2, last: 2}, {first: 3, last: 3, minutes: 1}, {first: 4, last: 4},
		}, []int{3, 4}, []int{1, 2}},
		{"after 10,000 others", []step{{first: 1, last: 10_001}}, []int{1, 5000, 10_001}, nil},
		{"after 20,000 others", []step{{first: 1, last: 10_000}, {first: 10_001, last: 20_002}}, []int{10_001, 20_002}, []int{1, 10_000}},
		{"after 8 MB", []step{{first: 1, last: 9, size: 1_000_000}, {first: 10, last: 10}}, []int{10}, nil},
		{"after 16 MB", []step{{first: 1, last: 1}, {first: 2, last: 19, size: 1_000_000}, {first: 20, last: 20}}, []int{20}, []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key := "{" + redistest.Name(t) + "}"
			for _, s := range tt.steps {
				if _, err := run.Run(t.Context(), write, key, strconv.Itoa(s.first), strconv.Itoa(s.last), strconv.Itoa(s.size)); err != nil {
					t.Fatal(err)
				}
				if s.minutes > 0 {
					if _, err := run.Run(t.Context(), older, key, fmt.Sprint(int64(s.minutes)*60e6+1e6)); err != nil {
						t.Fatal(err)
					}
				}
			}
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
