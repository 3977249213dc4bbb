package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/test/redistest"
)

var ickBehaviours = []behaviour{
	{"add folds and keeps the lower score", ickAddFolds},
	{"reserve is stable", ickReserveIsStable},
	{"re-added while reserved survives its commit", ickReAddedSurvives},
	{"a stale token commits nothing", ickStaleToken},
	{"exchange commits and reserves", ickExchange},
	{"large requests are cut up", ickLargeRequests},
	{"adds that share calls answer each caller", ickShared},
	{"an add wakes a consumer", ickAddWakes},
	{"consumers empty many icks", ickConsumersEmptyMany},
	{"failed members are parked and come back", ickParkedComeBack},
	{"stats tell what there is", ickStats},
	{"list finds the icks on all masters", ickList},
	{"delete leaves no key behind", ickDelete},
	{"a storm forgets no mark", ickStorm},
}

func openIck(t *testing.T, client rueidis.Client, name string) *ick.Ick {
	t.Helper()
	k, err := ick.New(client, name, ick.Config{})
	must(t, "ick.New", err)
	return k
}

// newIck returns an Ick of the test's own.
func newIck(t *testing.T, on running) *ick.Ick {
	t.Helper()
	return openIck(t, on.client(t), redistest.Name(t))
}

// marks reads "a:1 b:2.5" as member a with score 1 and b with 2.5.
func marks(t *testing.T, text string) []ick.Entry {
	t.Helper()
	var list []ick.Entry
	for word := range strings.FieldsSeq(text) {
		member, score, _ := strings.Cut(word, ":")
		number, err := jsontype.ParseScore(score)
		must(t, "marks", err)
		list = append(list, ick.Entry{Member: member, Score: number})
	}
	return list
}

func wantAdd(t *testing.T, k *ick.Ick, text string, isNew, lowered int) {
	t.Helper()
	got, err := k.Add(t.Context(), marks(t, text)...)
	want(t, "Add "+text, got, ick.Added{New: isNew, Lowered: lowered}, err)
}

// wantReserve checks the members of a reserve and returns the token.
func wantReserve(t *testing.T, k *ick.Ick, n int, text string) string {
	t.Helper()
	r, err := k.Reserve(t.Context(), n)
	want(t, fmt.Sprintf("Reserve(%d)", n), r.Entries, append([]ick.Entry{}, marks(t, text)...), err)
	return r.Token
}

func wantCommit(t *testing.T, k *ick.Ick, token, members string, committed, kept int) {
	t.Helper()
	got, err := k.Commit(t.Context(), token, strings.Fields(members)...)
	want(t, "Commit "+members, got, ick.Committed{Committed: committed, Kept: kept}, err)
}

func ickAddFolds(t *testing.T, on running) {
	k := newIck(t, on)
	wantAdd(t, k, "a:5 b:3", 2, 0)
	wantAdd(t, k, "a:7", 0, 0)
	wantAdd(t, k, "a:2", 0, 1)
	wantReserve(t, k, 10, "a:2 b:3")
}

func ickReserveIsStable(t *testing.T, on running) {
	k := newIck(t, on)
	wantReserve(t, k, 2, "")
	wantAdd(t, k, "a:1 b:2 c:3", 3, 0)
	wantReserve(t, k, 2, "a:1 b:2")
	wantAdd(t, k, "older:0", 1, 0)
	token := wantReserve(t, k, 2, "a:1 b:2")
	wantCommit(t, k, token, "a", 1, 0)
	token = wantReserve(t, k, 2, "older:0 b:2")
	wantCommit(t, k, token, "b older", 2, 0)
	wantReserve(t, k, 2, "c:3")
}

func ickReAddedSurvives(t *testing.T, on running) {
	k := newIck(t, on)
	wantAdd(t, k, "a:1 b:2", 2, 0)
	token := wantReserve(t, k, 2, "a:1 b:2")
	wantAdd(t, k, "a:9", 1, 0)
	wantCommit(t, k, token, "a b", 2, 0)
	wantReserve(t, k, 2, "a:9")
}

func ickStaleToken(t *testing.T, on running) {
	k, other := newIck(t, on), on.client(t)
	wantAdd(t, k, "a:1", 1, 0)
	stale := wantReserve(t, k, 2, "a:1")
	wantAdd(t, k, "a:9", 1, 0)
	fresh := wantReserve(t, openIck(t, other, k.Name()), 2, "a:1")
	got, err := k.Commit(t.Context(), stale, "a")
	if !errors.Is(err, millrace.ErrStale) {
		t.Errorf("Commit under a stale token = %v, want ErrStale", err)
	}
	want(t, "Commit under a stale token", got, ick.Committed{Kept: 1}, nil)
	wantReserve(t, k, 2, "a:1")
	wantCommit(t, k, fresh, "a", 1, 0)
	wantReserve(t, k, 2, "")
}

func ickExchange(t *testing.T, on running) {
	k := newIck(t, on)
	wantAdd(t, k, "a:1 b:2 c:3 d:4", 4, 0)
	token := wantReserve(t, k, 2, "a:1 b:2")
	r, done, err := k.Exchange(t.Context(), token, []string{"a"}, 2)
	want(t, "Exchange", done, ick.Committed{Committed: 1}, err)
	want(t, "Exchange", r.Entries, marks(t, "b:2 c:3"), nil)
	r, done, err = k.Exchange(t.Context(), r.Token, r.Members(), 2)
	want(t, "Exchange", done, ick.Committed{Committed: 2}, err)
	want(t, "Exchange", r.Entries, marks(t, "d:4"), nil)
}

func ickLargeRequests(t *testing.T, on running) {
	const size = 2500
	k := newIck(t, on)
	list := make([]ick.Entry, size)
	for i := range list {
		list[i] = ick.Entry{Member: strconv.Itoa(i), Score: float64(i)}
	}
	added, err := k.Add(t.Context(), list...)
	want(t, "Add", added, ick.Added{New: size}, err)
	r, err := k.Reserve(t.Context(), size)
	want(t, "Reserve", r.Entries, list, err)
	committed, err := k.Commit(t.Context(), r.Token, r.Members()...)
	want(t, "Commit", committed, ick.Committed{Committed: size}, err)
}

// ickShared has many callers add at once, each a member of its own and one that
// all share.
func ickShared(t *testing.T, on running) {
	const callers = 50
	k := newIck(t, on)
	answers := make(chan ick.Added, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			added, err := k.Add(t.Context(), marks(t, fmt.Sprintf("own%d:2 common:1", i))...)
			if err != nil {
				t.Errorf("Add: %v", err)
			}
			answers <- added
		})
	}
	all.Wait()
	close(answers)
	tally := map[ick.Added]int{}
	for added := range answers {
		tally[added]++
	}
	want(t, "answers", tally, map[ick.Added]int{{New: 2}: 1, {New: 1}: callers - 1}, nil)
}

// dirty is the methods that an Ick and a channel of them share.
type dirty interface {
	AddNow(ctx context.Context, members ...string) (ick.Added, error)
	Consume(ctx context.Context, cfg ick.ConsumeConfig, handler ick.Handler) error
}

// consume runs a consumer until the test ends. Nothing else may end it.
func consume(t *testing.T, k dirty, cfg ick.ConsumeConfig, handler ick.Handler) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- k.Consume(t.Context(), cfg, handler) }()
	t.Cleanup(func() {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Consume = %v, want it to go on until it is told to end", err)
		}
	})
}

// awaitEmpty waits until neither a mark nor a reserved member is left.
func awaitEmpty(t *testing.T, k *ick.Ick) {
	t.Helper()
	redistest.Eventually(t, "the Ick is empty", func() bool {
		s, err := k.Stats(t.Context())
		return err == nil && s.Total == 0 && s.Parked == 0
	})
}

// ickAddWakes adds to an Ick whose consumer has just gone to sleep. One that is
// not woken looks after a second, so the quickest of several waits decides.
func ickAddWakes(t *testing.T, on running) {
	k := newIck(t, on)
	handled := make(chan struct{}, 1)
	consume(t, openIck(t, on.client(t), k.Name()), ick.ConsumeConfig{}, func(context.Context, []ick.Entry) error {
		handled <- struct{}{}
		return nil
	})
	round := func() time.Duration {
		_, err := k.AddNow(t.Context(), "a")
		added := time.Now()
		must(t, "AddNow", err)
		<-handled
		took := time.Since(added)
		awaitEmpty(t, k) // the consumer found nothing more, and goes to sleep
		return took
	}
	round() // it may not have been asleep yet
	quickest := time.Hour
	for range 5 {
		if quickest = min(quickest, round()); quickest < 250*time.Millisecond {
			return
		}
	}
	t.Errorf("the quickest add was handed out after %v: it was found and woke nobody", quickest)
}

func ickConsumersEmptyMany(t *testing.T, on running) {
	const each = 120
	producer, consumer := on.client(t), on.client(t)
	var icks []*ick.Ick
	var mu sync.Mutex
	missing := map[string]bool{}
	for _, name := range spread(t, on, 2) {
		k := openIck(t, producer, name)
		icks = append(icks, k)
		members := make([]string, each)
		for i := range members {
			members[i] = fmt.Sprint(name, "/", i)
			missing[members[i]] = true
		}
		added, err := k.AddNow(t.Context(), members...)
		want(t, "AddNow", added, ick.Added{New: each}, err)
	}
	for _, k := range icks {
		consume(t, openIck(t, consumer, k.Name()), ick.ConsumeConfig{Batch: 50}, func(_ context.Context, batch []ick.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			if len(batch) > 50 {
				t.Errorf("a batch of %d, more than 50", len(batch))
			}
			for _, e := range batch {
				delete(missing, e.Member)
			}
			return nil
		})
	}
	for _, k := range icks {
		awaitEmpty(t, k)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(missing) > 0 {
		t.Errorf("never handed out: %v", slices.Sorted(maps.Keys(missing)))
	}
}

func ickParkedComeBack(t *testing.T, on running) {
	k := newIck(t, on)
	wantAdd(t, k, "good:1 weak:2 bad:3", 3, 0)
	tries := make(chan string, 100)
	weak := false
	handler := func(_ context.Context, batch []ick.Entry) (err error) {
		for _, e := range batch {
			tries <- e.Member
			if e.Member == "bad" || e.Member == "weak" && !weak {
				weak = weak || e.Member == "weak"
				err = errors.Join(err, ick.Failed(fmt.Errorf("%s is odd", e.Member), e.Member))
			}
		}
		return err
	}
	consume(t, k, ick.ConsumeConfig{MaxAttempts: 2, RetryDelay: 20 * time.Millisecond}, handler)
	var seen []string
	for range 5 {
		seen = append(seen, <-tries)
	}
	want(t, "tries", seen[:3], []string{"good", "weak", "bad"}, nil)
	slices.Sort(seen[3:])
	want(t, "further tries", seen[3:], []string{"bad", "weak"}, nil)

	parked := func() []ick.Parked {
		var list []ick.Parked
		for p, err := range k.Parked(t.Context()) {
			must(t, "Parked", err)
			list = append(list, p)
		}
		return list
	}
	redistest.Eventually(t, "one member stays parked", func() bool {
		list := parked()
		return len(list) == 1 && list[0].Until.IsZero()
	})
	p := parked()[0]
	p.At = time.Time{}
	want(t, "Parked", p, ick.Parked{Entry: ick.Entry{Member: "bad", Score: 3}, Attempts: 2, Reason: "bad is odd"}, nil)

	n, err := k.Retry(t.Context(), "bad", "good")
	want(t, "Retry", n, 1, err)
	want(t, "try by hand", <-tries, "bad", nil)
	redistest.Eventually(t, "it is parked again", func() bool { return len(parked()) == 1 })
	n, err = k.Drop(t.Context(), "bad")
	want(t, "Drop", n, 1, err)
	awaitEmpty(t, k)
}

func ickStats(t *testing.T, on running) {
	k := newIck(t, on)
	if _, err := k.Stats(t.Context()); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("Stats of no Ick = %v, want ErrNotFound", err)
	}
	wantAdd(t, k, "a:1 b:2 c:3", 3, 0)
	token := wantReserve(t, k, 2, "a:1 b:2")
	wantAdd(t, k, "a:9 c:8", 1, 0)
	wantCommit(t, k, token, "b", 1, 0)
	s, err := k.Stats(t.Context())
	must(t, "Stats", err)
	if s.At.IsZero() || s.OldestAge <= 0 {
		t.Errorf("Stats at %v, oldest mark waits for %v; want both", s.At, s.OldestAge)
	}
	s.At, s.OldestAge = time.Time{}, 0
	want(t, "Stats", s, ick.Stats{
		Name:     k.Name(),
		Version:  "ick.v1",
		Waiting:  ick.SetStats{Key: s.Waiting.Key, Size: 2, Oldest: 3, Newest: 9},
		Reserved: ick.SetStats{Key: s.Reserved.Key, Size: 1, Oldest: 1, Newest: 1},
		Total:    3,
		Distinct: 2,
		Counters: ick.Counters{New: 4, Folded: 1, Reserved: 2, Committed: 1},
	}, nil)
}

func ickList(t *testing.T, on running) {
	client := on.client(t)
	missing := map[string]bool{}
	for _, name := range spread(t, on, 3) {
		wantAdd(t, openIck(t, client, name), "a:1", 1, 0)
		missing[name] = true
	}
	for name, err := range ick.List(t.Context(), client) {
		must(t, "List", err)
		delete(missing, name)
	}
	if len(missing) > 0 {
		t.Errorf("not listed: %v", slices.Sorted(maps.Keys(missing)))
	}
}

func ickDelete(t *testing.T, on running) {
	client := on.client(t)
	for _, name := range spread(t, on, 1) {
		k := openIck(t, client, name)
		wantAdd(t, k, "a:1 b:2", 2, 0)
		token := wantReserve(t, k, 2, "a:1 b:2")
		wantCommit(t, k, token, "a", 1, 0)
		wantAdd(t, k, "a:3", 1, 0)
		keys := func() []string { return keysOf(t, client, name) }
		if got := keys(); len(got) < 4 {
			t.Errorf("keys of an Ick = %v, want its sets, its version and more", got)
		}
		n, err := k.Delete(t.Context())
		want(t, "Delete", n, 3, err)
		if got := keys(); len(got) > 0 {
			t.Errorf("keys after Delete = %v, want none", got)
		}
	}
}
