package tracker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// childEnv makes the test binary a process that runs slices: "URL name".
const childEnv = "MILLRACE_TEST_TRACKER_SLICES"

// shared is a [Source] that several processes see: a sorted set of identifiers,
// scored by the keys of their rows.
type shared struct {
	client rueidis.Client
	key    string
}

func (s shared) Rows(ctx context.Context, after string, limit int) (Page, error) {
	from := "-inf"
	if after != "" {
		from = "(" + after
	}
	found, err := s.client.Do(ctx, s.client.B().Zrangebyscore().Key(s.key).Min(from).Max("+inf").Withscores().Limit(0, int64(limit)).Build()).AsZScores()
	page := Page{Looked: len(found)}
	for _, z := range found {
		page.IDs = append(page.IDs, z.Member)
		if len(found) == limit {
			page.Next = strconv.FormatFloat(z.Score, 'f', -1, 64)
		}
	}
	return page, err
}

func (s shared) Pending(ctx context.Context, ids []string) ([]string, error) {
	found, err := s.client.Do(ctx, s.client.B().Zmscore().Key(s.key).Member(ids...).Build()).ToArray()
	var pending []string
	for i, z := range found {
		if !z.IsNil() {
			pending = append(pending, ids[i])
		}
	}
	return pending, err
}

func (s shared) start(t *testing.T, key int, id string) {
	t.Helper()
	must(t, s.client, "ZADD", s.key, strconv.Itoa(key), id)
}

func (s shared) finish(t *testing.T, id string) {
	t.Helper()
	must(t, s.client, "ZREM", s.key, id)
}

// beSlices runs slices of both jobs until the standard input ends.
func beSlices(spec string) error {
	var url, name string
	if _, err := fmt.Sscan(spec, &url, &name); err != nil {
		return err
	}
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	tr, err := New(client, name, Config{Source: shared{client, name}, AddRows: 5, VerifyIDs: 5, Grace: 1e6})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	for first := true; ; first = false {
		_, err := tr.Jobs()[0].Slice(ctx)
		if err == nil {
			_, err = tr.Jobs()[1].Slice(ctx)
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			fmt.Println("runs")
		}
	}
}

// TestProcesses lets two processes run slices as fast as they can, while
// producers queue work and workers finish it. One process is killed at any
// moment. Nothing that was added and has work is ever missing.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	name := redistest.Name(t)
	work := shared{client, name}
	tr := openOn(t, client, name, Config{Source: work})
	spec := childEnv + "=" + server.URL() + " " + name
	children := []*redistest.Child{redistest.StartChild(t, spec), redistest.StartChild(t, spec)}
	for _, child := range children {
		child.Lines(1)
	}
	const ids, rounds = 20, 600
	live := map[string]bool{}
	for i := range rounds {
		id := strconv.Itoa(i * 7 % ids)
		switch {
		case live[id]:
			wantState(t, tr, id, Queued)
			work.finish(t, id)
			delete(live, id)
		case i%3 == 0: // its producer dies between the commit and the Add
			work.start(t, i, id)
		default:
			work.start(t, i, id)
			add(t, tr, id)
			live[id] = true
		}
		for other := range live {
			if state(t, tr, other) != Queued {
				t.Fatalf("round %d: %q was added and has work, and is not tracked", i, other)
			}
		}
		if i == rounds/2 {
			children[0].Kill()
		}
	}
	redistest.Eventually(t, "all that has work is tracked, and nothing else", func() bool {
		want, err := do(t, client, "ZRANGE", name, "0", "-1").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		return slices.Equal(tracked(t, tr), want)
	})
	must(t, client, "DEL", name)
}
