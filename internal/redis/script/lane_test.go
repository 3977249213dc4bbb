package script_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// counting has a script that is not idempotent by nature.
var counting = script.Load(fstest.MapFS{"add.lua": {Data: []byte(`-- test.add(K) by -> number
-- Needs    lane
if answered then
  return tonumber(answered)
end
return tonumber(answer(tostring(redis.call('HINCRBY', K, 'n', ARGV[1]))))
`)}}, "K:")

// age makes the answers of a structure as much older, in periods of lanes.
func age(t *testing.T, client rueidis.Client, key string, periods int) {
	t.Helper()
	for _, part := range []string{":lanes:0", ":lanes:1", ":keyed:0", ":keyed:1"} {
		if n, err := client.Do(t.Context(), client.B().Exists().Key(key+part).Build()).AsInt64(); err != nil || n == 0 {
			continue
		}
		if err := client.Do(t.Context(), client.B().Hincrby().Key(key+part).Field("").Increment(int64(-periods)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

func number(t *testing.T, client rueidis.Client, key string) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), client.B().Hget().Key(key).Field("n").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRepeatBehindOthers: a call whose reply is lost takes effect once, though 25,000
// calls of others come before its repeat.
func TestRepeatBehindOthers(t *testing.T) {
	t.Parallel()
	play := func(library *script.Library) (answer, stored int64) {
		server := redistest.Start(t, redistest.Options{})
		proxy := redistest.NewProxy(t, server.Addr())
		direct := server.Client(t)
		scripttest.Load(t, direct, library)
		var others redistest.Pipeline
		for i := range 25_000 {
			others.Add("EVALSHA", library.Script("add").SHA(), "1", "k", "1", fmt.Sprint("other:", i%50), fmt.Sprintf("%016dAAAAAAAAAAA", i))
		}
		caller := script.Runner{Client: proxy.Client(t), Scripts: library, Hooks: []millrace.Hook{
			beforeTry(2, func() { others.Send(t, server) }),
		}}
		lost := proxy.DropReply(redistest.Named("EVALSHA"))
		reply, err := caller.Run(t.Context(), "add", "k", "1000000")
		if err != nil || lost.Count() != 1 {
			t.Fatalf("Run = %v with %d lost replies, want none and 1", err, lost.Count())
		}
		return reply.Int(), number(t, direct, "k")
	}
	if answer, stored := play(counting); answer != 1_000_000 || stored != 1_025_000 {
		t.Errorf("answer %d and number %d, want 1000000 and 1025000", answer, stored)
	}
	forgetful := scripttest.Without(t, counting, "if answered then", "if false then")
	if _, stored := play(forgetful); stored == 1_025_000 {
		t.Error("a script that ignores its lane is done once, want twice: this shows nothing")
	}
}

// beforeTry calls do before a call's try of that number.
type tryHook struct {
	number int
	do     func()
}

func beforeTry(number int, do func()) tryHook { return tryHook{number, do} }

func (h tryHook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try == h.number {
		h.do()
	}
	return ctx, nil
}

// TestLanes follows one lane from call to call.
func TestLanes(t *testing.T) {
	t.Parallel()
	const a, b = "AAAAAAAAAAA", "BBBBBBBBBBB"
	ticket := func(number int, letters string) string { return fmt.Sprintf("%016d%s", number, letters) }
	type step struct {
		lane, ticket string
		age          int // periods, before the call
		want         string
	}
	for _, tt := range []struct {
		name    string
		without string // the passage of the fragment that this needs
		instead string
		steps   []step
	}{
		{"a repeat gets the answer", "answered = string.sub(last, 28)", "answered = false", []step{
			{lane: "l", ticket: ticket(1, a), want: "1"}, {lane: "l", ticket: ticket(1, a), want: "1"}, {lane: "l", ticket: ticket(2, b), want: "2"},
		}},
		{"a late call is refused", "number >= string.sub(ticket, 1, 16)", "number == string.sub(ticket, 1, 16)", []step{
			{lane: "l", ticket: ticket(9, a), want: "1"}, {lane: "l", ticket: ticket(10, b), want: "2"}, {lane: "l", ticket: ticket(9, a), want: "LANE"},
		}},
		{"a copy of the machine is refused", "string.sub(last, 17, 27) ~= string.sub(ticket, 17) or ", "", []step{
			{lane: "l", ticket: ticket(1, a), want: "1"}, {lane: "l", ticket: ticket(1, b), want: "LANE"},
		}},
		{"a ticket of another length is refused", "lane ~= '' and #ticket ~= 27", "false", []step{
			{lane: "l", ticket: "7", want: "TICKET"}, {lane: "l", ticket: ticket(1, a) + "1", want: "TICKET"}, {lane: "l", ticket: ticket(1, a), want: "1"},
		}},
		{"lanes are apart", "", "", []step{
			{lane: "l", ticket: ticket(5, a), want: "1"}, {lane: "m", ticket: ticket(1, a), want: "2"}, {lane: "l", ticket: ticket(5, a), want: "1"},
		}},
		{"no lane", "", "", []step{{want: "1"}, {want: "2"}}},
		{"the answer of the period before is known", "last = tonumber(found[1] or 0) >= period - 1 and found[2]", "last = false", []step{
			{lane: "l", ticket: ticket(1, a), want: "1"}, {lane: "m", ticket: ticket(1, a), want: "2"},
			{lane: "l", ticket: ticket(1, a), want: "1"},
		}},
		{"that of two periods before is not", "stale = tonumber(found[1] or 0) < period", "stale = false", []step{
			{lane: "l", ticket: ticket(1, a), want: "1"}, {lane: "l", ticket: ticket(1, a), age: 2, want: "2"},
		}},
		{"a request with a key", "", "", []step{
			{lane: "ID", ticket: ticket(0, "idempotency"), want: "1"}, {lane: "ID", ticket: ticket(0, "idempotency"), want: "1"},
			{lane: "other", ticket: ticket(0, "idempotency"), want: "2"}, {lane: "ID", ticket: ticket(0, "idempotency"), age: 2, want: "3"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Shared(t).Client(t)
			play := func(library *script.Library, key string) string {
				for i, s := range tt.steps {
					age(t, client, key, s.age)
					if tt.name == "the answer of the period before is known" && i == 2 {
						turn(t, client, key)
					}
					m := client.Do(t.Context(), client.B().Eval().Script(library.Script("add").Source()).Numkeys(1).Key(key).
						Arg("1", s.lane, s.ticket).Build())
					got, err := m.ToMessage()
					text := ""
					if n, isNumber := got.AsInt64(); err == nil && isNumber == nil {
						text = strconv.FormatInt(n, 10)
					} else if err != nil {
						text, _, _ = strings.Cut(err.Error(), " ")
					}
					if text != s.want {
						return fmt.Sprintf("step %d: %q (%v), want %q", i+1, text, err, s.want)
					}
				}
				return ""
			}
			if wrong := play(counting, "{"+redistest.Name(t)+"}"); wrong != "" {
				t.Error(wrong)
			}
			if tt.without != "" {
				if wrong := play(scripttest.Without(t, counting, tt.without, tt.instead), "{"+redistest.Name(t)+"}without"); wrong == "" {
					t.Errorf("nothing is wrong without %q: this shows nothing", tt.without)
				}
			}
		})
	}
}

// turn makes the current answers those of the period before.
func turn(t *testing.T, client rueidis.Client, key string) {
	t.Helper()
	for i, part := range []string{":lanes:0", ":lanes:1"} {
		period, err := client.Do(t.Context(), client.B().Hget().Key(key+part).Field("").Build()).AsInt64()
		if err != nil {
			continue // the other one
		}
		other := key + ":lanes:" + strconv.Itoa(1-i)
		must(t, client, client.B().Rename().Key(key+part).Newkey(other).Build())
		must(t, client, client.B().Hset().Key(other).FieldValue().FieldValue("", strconv.FormatInt(period-1, 10)).Build())
		return
	}
	t.Fatal("there are no answers")
}

func must(t *testing.T, client rueidis.Client, cmd rueidis.Completed) {
	t.Helper()
	if err := client.Do(t.Context(), cmd).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestRequestOfACaller: a caller that repeats by itself does so with its request.
func TestRequestOfACaller(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	key := "{" + redistest.Name(t) + "}"
	runner := script.Runner{Client: client, Scripts: counting, Lanes: &reqid.Lanes{}}
	request := runner.Request(t.Context())
	for range 3 {
		if reply, err := runner.RunRequest(t.Context(), request, "add", key, "1"); err != nil || reply.Int() != 1 {
			t.Fatalf("RunRequest = %v, want 1 each time", err)
		}
	}
	// A later call of the lane came first: the repeat is refused, and not sent anew in
	// another lane.
	must(t, client, client.B().Eval().Script(counting.Script("add").Source()).Numkeys(1).Key(key).
		Arg("1", request.Lane, fmt.Sprintf("%016dAAAAAAAAAAA", 1<<40)).Build())
	if _, err := runner.RunRequest(t.Context(), request, "add", key, "1"); !errors.Is(err, millrace.ErrUncertain) {
		t.Errorf("a repeat behind a later call = %v, want ErrUncertain", err)
	}
	request.Done()
	if reply, err := runner.Run(t.Context(), "add", key, "1"); err != nil || reply.Int() != 3 {
		t.Fatalf("Run = %v, want 3", err)
	}
}

// TestSeededRequests: a call of another process under the same seed is the same request.
func TestSeededRequests(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	key := "{" + redistest.Name(t) + "}"
	for _, tt := range []struct {
		seed string
		want int64
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"", 3}, {"", 4}, {"a", 1}} {
		runner := script.Runner{Client: client, Scripts: counting, Lanes: &reqid.Lanes{}}
		reply, err := runner.Run(reqid.With(t.Context(), tt.seed), "add", key, "1")
		if err != nil || reply.Int() != tt.want {
			t.Errorf("a call under the seed %q = %v, want %d", tt.seed, err, tt.want)
		}
	}
}

// TestLanesAreFew: the memory of answers is bounded by the calls in flight at
// once, not by their total number.
func TestLanesAreFew(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	key := "{" + redistest.Name(t) + "}"
	runner := script.Runner{Client: client, Scripts: counting, Lanes: &reqid.Lanes{}}
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			for range 100 {
				if _, err := runner.Run(t.Context(), "add", key, "1"); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	lanes := int64(0)
	for _, part := range []string{":lanes:0", ":lanes:1"} {
		n, err := client.Do(t.Context(), client.B().Hlen().Key(key+part).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		lanes += n
	}
	if lanes > 42 { // twice, if a period ended meanwhile
		t.Errorf("2,000 calls of 20 goroutines left %d answers, want one for each lane", lanes)
	}
}
