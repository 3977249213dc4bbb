package fairqueue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// from is a draft of a source.
func from(source string, position int64) Draft {
	return Draft{Tenant: "a", Body: fmt.Append(nil, position), Source: source, Position: position}
}

// TestPositions: a position is written once, a gap is refused, and a position outlives its message.
func TestPositions(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	at := func(source string, position int64) {
		t.Helper()
		got, err := q.Sources().Position(t.Context(), source)
		want(t, "position of "+source, got, position, err)
	}
	at("s", 0)
	none, err := q.Sources().All(t.Context())
	want(t, "sources of no queue", none, map[string]int64{}, err)

	written, err := q.WriteBatch(t.Context(), from("s", 1), from("s", 2), Draft{Tenant: "b"}, from("other", 1), from("s", 2))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the repeat in the same call", written[4], Written{Duplicate: true}, nil)
	at("s", 2)
	at("other", 1)

	sources, err := q.Sources().All(t.Context())
	want(t, "sources", sources, map[string]int64{"s": 2, "other": 1}, err)

	// A refused draft stops no other, and has an error.
	written, err = q.WriteBatch(t.Context(), from("s", 4), Draft{Tenant: "b"}, from("s", 2), from("s", 3), from("s", 5))
	wantError(t, err, ErrGap)
	taken := make([]bool, len(written))
	for i, w := range written {
		taken[i] = w.ID != ""
	}
	want(t, "which were written", taken, []bool{false, true, false, true, false}, nil)
	want(t, "duplicates", written[2].Duplicate, true, nil)
	at("s", 3)
	wantSizes(t, q, 6, 0, 0, 0)

	// A position outlives its message, and that of a delayed one counts at once.
	if _, err := q.Cancel(t.Context(), written[3].ID); err != nil {
		t.Fatal(err)
	}
	later := from("s", 4)
	later.Delay = time.Hour
	for _, d := range []Draft{from("s", 3), later, from("s", 4)} {
		if _, err := q.Write(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	wantSizes(t, q, 5, 0, 1, 0)

	if err := q.Sources().SetPosition(t.Context(), "s", 10); err != nil {
		t.Fatal(err)
	}
	_, err = q.Write(t.Context(), from("s", 10))
	want(t, "the position that was set", nil, nil, err)
	_, err = q.Write(t.Context(), from("s", 11))
	want(t, "the next one", nil, nil, err)
	wantSizes(t, q, 6, 0, 1, 0)

	// A new queue may begin in the middle.
	q = open(t, Config{Streams: 8})
	want(t, "set", nil, nil, q.Sources().SetPosition(t.Context(), "s", 10))
	_, err = q.WriteBatch(t.Context(), from("s", 10), from("s", 11))
	want(t, "write", nil, nil, err)
	want(t, "streams", stats(t, q).Streams, 8, nil)
	wantSizes(t, q, 1, 0, 0, 0)
}

func TestSourcesAreChecked(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, d := range []Draft{
		{Tenant: "a", Source: "s"},
		{Tenant: "a", Position: 1},
		{Tenant: "a", Source: "s", Position: -1},
		{Tenant: "a", Source: "s", Position: maxPosition + 1},
		{Tenant: "a", Source: "s", Position: 1, DedupeID: "x"},
		{Tenant: "a", Source: string(make([]byte, maxLabel+1)), Position: 1},
	} {
		_, err := q.Write(t.Context(), d)
		wantError(t, err, millrace.ErrBadArgument)
	}
	_, err := q.Sources().Position(t.Context(), "")
	wantError(t, err, millrace.ErrBadArgument)
	wantError(t, q.Sources().SetPosition(t.Context(), "s", -1), millrace.ErrBadArgument)
}

// TestSourcesAreBounded: the record stays small, and a source that ended makes room.
func TestSourcesAreBounded(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	drafts := make([]Draft, 1001)
	for i := range drafts {
		drafts[i] = from(fmt.Sprint("s", i), 1)
	}
	written, err := q.WriteBatch(t.Context(), drafts...)
	wantError(t, err, ErrSources)
	want(t, "refused", slices.Index(written, Written{}), 1000, nil)
	for _, source := range []string{"s1", "s1", "none"} { // once for each source
		want(t, "forget", nil, nil, q.Sources().SetPosition(t.Context(), source, 0))
	}
	_, err = q.WriteBatch(t.Context(), drafts[1000], from("s1000", 2))
	want(t, "write", nil, nil, err)
	_, err = q.Write(t.Context(), drafts[1])
	wantError(t, err, ErrSources)
	wantSizes(t, q, 1002, 0, 0, 0)
}

// TestSourcesKeepAQueue: upkeep does not remove an empty queue that remembers a position.
func TestSourcesKeepAQueue(t *testing.T) {
	t.Parallel()
	q := open(t, Config{IdleExpiry: time.Millisecond})
	if _, err := q.Write(t.Context(), from("s", 1)); err != nil {
		t.Fatal(err)
	}
	ack(t, q, read(t, q, 1)...)
	tend := func() {
		t.Helper()
		passes(t, q.run.Client, 2*time.Millisecond)
		if _, err := q.call(t.Context(), "tend", ""); err != nil {
			t.Fatal(err)
		}
	}
	tend()
	at, err := q.Sources().Position(t.Context(), "s")
	want(t, "position", at, int64(1), err)
	want(t, "forget", nil, nil, q.Sources().SetPosition(t.Context(), "s", 0))
	tend()
	_, err = q.Stats(t.Context())
	wantError(t, err, millrace.ErrNotFound)
}

// TestPositionsModel: processes write pieces of two sources, again, too early and with lost
// replies; each position is written once, in its order.
func TestPositionsModel(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	straight, lossy := server.Client(t), proxy.Client(t)
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		runs++
		name := fmt.Sprint(redistest.Name(t), runs)
		processes := []*Queue{openOn(t, straight, name, Config{}), openOn(t, lossy, name, Config{})}
		model := map[string]int64{}
		for range rapid.IntRange(1, 8).Draw(r, "writes") {
			var drafts []Draft
			var answers []Written // as the model has them, with the id "x" of a new message
			gap := false
			for range rapid.IntRange(1, 2).Draw(r, "pieces") {
				source := rapid.SampledFrom([]string{"s", "\x01\n t"}).Draw(r, "source")
				first := max(1, model[source]+rapid.Int64Range(-3, 2).Draw(r, "first"))
				for position := first; position < first+rapid.Int64Range(1, 4).Draw(r, "messages"); position++ {
					drafts = append(drafts, from(source, position))
					switch at := model[source]; {
					case position <= at:
						answers = append(answers, Written{Duplicate: true})
					case position == at+1:
						answers, model[source] = append(answers, Written{ID: "x"}), position
					default:
						answers, gap = append(answers, Written{}), true
					}
				}
			}
			if rapid.Bool().Draw(r, "lose the reply") {
				proxy.DropReply(evalsha)
			}
			written, err := rapid.SampledFrom(processes).Draw(r, "process").WriteBatch(t.Context(), drafts...)
			if gap != errors.Is(err, ErrGap) || !gap && err != nil {
				r.Fatalf("write = %v, want a gap: %v", err, gap)
			}
			for i := range written {
				if written[i].ID != "" {
					written[i].ID = "x"
				}
			}
			if !slices.Equal(written, answers) {
				r.Fatalf("written = %v, want %v", written, answers)
			}
		}
		wantOnce(t, processes[0], model)
	})
}

// TestPositionsFromManyProcesses: eight processes write the same 300 messages in pieces of
// their own, while replies are lost. Each is written once, in its order.
func TestPositionsFromManyProcesses(t *testing.T) {
	t.Parallel()
	const all, pieces = 300, 20
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var mu sync.Mutex
	proxy.DropReplyWhen(func(cmd []string) bool {
		mu.Lock()
		defer mu.Unlock()
		return evalsha(cmd) && rand.N(10) == 0
	})
	name := redistest.Name(t)
	var wg sync.WaitGroup
	for range 8 {
		q := openOn(t, proxy.Client(t), name, Config{})
		wg.Go(func() {
			for {
				at, err := q.Sources().Position(t.Context(), "s")
				if err != nil {
					t.Error(err)
					return
				}
				if at == all {
					return
				}
				var drafts []Draft
				for position := max(1, at-rand.N(int64(pieces))); position <= min(all, at+pieces); position++ {
					drafts = append(drafts, from("s", position))
				}
				if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantOnce(t, openOn(t, server.Client(t), name, Config{}), map[string]int64{"s": all})
	t.Logf("%d replies were lost", proxy.Dropped())
}

// wantOnce checks that each position up to those of the model is there once, in its order.
func wantOnce(t *testing.T, q *Queue, model map[string]int64) {
	t.Helper()
	total := int64(0)
	for source, last := range model {
		at, err := q.Sources().Position(t.Context(), source)
		want(t, "position", at, last, err)
		total += last
	}
	if total == 0 {
		return
	}
	list, _, err := q.Browse(t.Context(), BrowseConfig{Max: 1000})
	want(t, "messages", int64(len(list)), total, err)
	if len(model) > 1 {
		return // they share a flow, in any order
	}
	for i, m := range list {
		want(t, "body", string(m.Body), fmt.Sprint(i+1), nil)
	}
}

// TestARepeatSetsNoPositionBack: a change of a position whose reply was lost is not made again, though the source went on
// meanwhile.
func TestARepeatSetsNoPositionBack(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	want(t, "set", nil, nil, q.Sources().SetPosition(t.Context(), "s", 5))
	request := q.run.Request(t.Context())
	defer request.Done()
	send := func() {
		t.Helper()
		_, err := q.run.RunRequest(t.Context(), request, "set", baseKey(q.name), "at:s", "7")
		want(t, "set", nil, nil, err)
	}
	send()
	_, err := q.Write(t.Context(), from("s", 8))
	want(t, "write", nil, nil, err)
	send()
	at, err := q.Sources().Position(t.Context(), "s")
	want(t, "position after the repeat", at, int64(8), err)
}
