package fairqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/shuffleshard"
)

// browse returns all pages of what there is to see.
func browse(t *testing.T, q *Queue, cfg BrowseConfig) (all []Browsed, pages int) {
	t.Helper()
	for {
		page, err := q.Browse(t.Context(), cfg)
		if err != nil {
			t.Fatalf("browse %+v: %v", cfg, err)
		}
		all = append(all, page.Messages...)
		if pages++; page.Next == "" {
			return all, pages
		}
		cfg.After = page.Next
	}
}

// bodiesOf writes what was browsed as words, in alphabetical order.
func bodiesOf(messages []Browsed) string {
	words := make([]string, len(messages))
	for i, m := range messages {
		words[i] = string(m.Body)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestBrowse follows messages from place to place, and looking changes nothing.
func TestBrowse(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Gzip: 1})
	ctx := t.Context()
	_, err := q.Browse(ctx, BrowseConfig{})
	wantError(t, err, millrace.ErrNotFound)
	_, err = q.Browse(ctx, BrowseConfig{Tenant: "a"})
	wantError(t, err, millrace.ErrNotFound)

	body := strings.Repeat("hello ", 100)
	id, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte(body), Headers: map[string]string{"k": "v"}, Deadline: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	later, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte("later"), Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	look := func(place Place) Browsed {
		t.Helper()
		before := dump(t, q)
		all, _ := browse(t, q, BrowseConfig{Place: place})
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Fatalf("looking changed the queue (-before +after):\n%s", diff)
		}
		if len(all) != 1 {
			t.Fatalf("%d messages are %s, want one", len(all), place)
		}
		return all[0]
	}
	got := look("")
	stream, at := got.Stream, got.Written
	if s := stats(t, q); s.Streams[0].Index != stream || s.At.Sub(at) < 0 || s.At.Sub(at) > time.Minute {
		t.Errorf("stream %d, written %v: the queue has %+v", stream, at, s)
	}
	if left := got.Deadline.Sub(at); left < time.Hour-time.Second || left > time.Hour {
		t.Errorf("the deadline is %v after the write, want an hour", left)
	}
	waits := Browsed{Message: Message{
		ID: id, Tenant: "a", Body: []byte(body), Headers: map[string]string{"k": "v"}, Stream: stream, Written: at, Deadline: got.Deadline,
	}}
	want(t, "waiting", got, waits, nil)

	aside := look(Delayed)
	want(t, "delayed", aside, Browsed{
		Message: Message{ID: later, Tenant: "a", Body: []byte("later"), Stream: aside.Stream, Written: aside.Written},
		Until:   aside.Written.Add(time.Hour),
	}, nil)

	if err := q.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	want(t, "waiting in a paused queue", look(Waiting), waits, nil)
	if err := q.Resume(ctx); err != nil {
		t.Fatal(err)
	}

	messages, err := q.Read(ctx, ReadConfig{Visibility: time.Minute, Consumer: "web/7"})
	if err != nil {
		t.Fatal(err)
	}
	now := stats(t, q).At
	flies := waits
	flies.Attempt, flies.Consumer = 1, "web/7"
	got = look(InFlight)
	if left := got.Until.Sub(now); left < 30*time.Second || left > time.Minute {
		t.Errorf("in flight for another %v, want a little less than a minute", left)
	}
	flies.Until = got.Until
	want(t, "in flight", got, flies, nil)

	if err := q.Nack(ctx, messages[0].Receipt, NackConfig{}); err != nil {
		t.Fatal(err)
	}
	waits.Attempt, waits.Stream = 1, look(Waiting).Stream
	want(t, "back", look(Waiting), waits, nil)
}

// TestBrowsePages: as many messages a page as were asked for, each message once.
func TestBrowsePages(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 8})
	var wrote []string
	for i := range 250 {
		wrote = append(wrote, fmt.Sprintf("tenant%d:%03d", i%20, i))
	}
	write(t, q, strings.Join(wrote, " "))
	for i := range wrote {
		_, wrote[i], _ = strings.Cut(wrote[i], ":")
	}
	for most, wantPages := range map[int]int{0: 3, 1: 251, 99: 3, 125: 3, 249: 2, 250: 2, 251: 1, 1000: 1} {
		all, pages := browse(t, q, BrowseConfig{Max: most})
		want(t, fmt.Sprintf("pages of %d", most), pages, wantPages, nil)
		want(t, fmt.Sprintf("messages in pages of %d", most), bodiesOf(all), strings.Join(wrote, " "), nil)
	}
	flying := read(t, q, 100)
	all, pages := browse(t, q, BrowseConfig{Place: InFlight, Max: 30})
	if len(all) != len(flying) || pages != 4 {
		t.Errorf("%d messages in flight on %d pages, want 100 on 4", len(all), pages)
	}
}

// TestBrowseATenant in a crowd: a call looks at 1,000 messages and no more.
func TestBrowseATenant(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 1})
	for n := range 3 {
		drafts := make([]Draft, 1000)
		for i := range drafts {
			drafts[i] = Draft{Tenant: "flood", Delay: time.Duration(n%2) * time.Hour}
		}
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
	}
	write(t, q, "quiet:1 flood:x quiet:2")
	if _, err := q.Write(t.Context(), Draft{Tenant: "quiet", Body: []byte("3"), Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for place, wanted := range map[Place]string{Waiting: "1 2", InFlight: "", Delayed: "3"} {
		all, pages := browse(t, q, BrowseConfig{Place: place, Tenant: "quiet"})
		want(t, fmt.Sprint("the quiet tenant's, ", place), bodiesOf(all), wanted, nil)
		most := map[Place]int{Waiting: 3, InFlight: 1, Delayed: 2}[place]
		want(t, "pages", pages, most, nil)
	}
	all, _ := browse(t, q, BrowseConfig{Tenant: "nobody"})
	want(t, "nobody's", len(all), 0, nil)
	for range 3 {
		read(t, q, 1000)
	}
	all, pages := browse(t, q, BrowseConfig{Place: InFlight, Tenant: "quiet", Max: 1})
	want(t, "in flight", bodiesOf(all), "1 2", nil)
	want(t, "pages", pages, 5, nil) // two that are empty, one for each message, and the end
}

// TestBrowseOldStreams: what lies in streams that are no longer used is shown, and
// not to who asks for its tenant's present ones.
func TestBrowseOldStreams(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 64, PerTenant: 64})
	write(t, q, "a:1 a:2 a:3 a:4 a:5")
	if err := q.Resize(t.Context(), 3, 1); err != nil {
		t.Fatal(err)
	}
	write(t, q, "a:6")
	all, _ := browse(t, q, BrowseConfig{})
	want(t, "everything", bodiesOf(all), "1 2 3 4 5 6", nil)
	shard, err := q.Shard(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	all, _ = browse(t, q, BrowseConfig{Tenant: "a"})
	for _, m := range all {
		if !slices.Contains(shard, m.Stream) {
			t.Errorf("message %s is in stream %d, the tenant has %v", m.Body, m.Stream, shard)
		}
	}
	if !strings.HasSuffix(bodiesOf(all), "6") {
		t.Errorf("the tenant's = %q, want the newest among them", bodiesOf(all))
	}
}

// TestBrowseGarbled: entries that no reader could make sense of do not hide the
// others, and say what is wrong.
func TestBrowseGarbled(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 1})
	write(t, q, "a:first")
	base := baseKey(q.name)
	garbled := map[string][]string{
		"attempts": {"n", "x"},
		"written":  {"w", "x"},
		"deadline": {"d", "x"},
		"headers":  {"h", "{"},
		"gzip":     {"e", "gzip"},
		"encoding": {"e", "x"},
	}
	for body, fields := range garbled {
		for _, stream := range []string{":s:0", ":later"} {
			xadd := append([]string{"XADD", base + stream, "*", "t", "a", "b", body, "s", "x", "u", "x"}, fields...)
			if err := do(t, q.run.Client, xadd...).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, stream := range []string{":s:0", ":later"} {
		if err := do(t, q.run.Client, "XADD", base+stream, "*", "foreign", "").Error(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, q, "a:last")
	check := func(place Place, n int) {
		t.Helper()
		all, _ := browse(t, q, BrowseConfig{Place: place})
		bad := 0
		for _, m := range all {
			if m.Garbled != "" {
				bad++
			}
		}
		want(t, fmt.Sprint(place, ": messages, garbled ones"), [2]int{len(all), bad}, [2]int{n, len(garbled)}, nil)
	}
	check(Waiting, len(garbled)+3)
	check(Delayed, len(garbled)+1)
	all, _ := browse(t, q, BrowseConfig{Tenant: "a"})
	want(t, "a's messages that wait", len(all), len(garbled)+2, nil)

	// All of them in flight, with somebody who is no reader of this library; and then
	// one of them deleted.
	if err := do(t, q.run.Client, "XGROUP", "CREATE", base+":s:0", GroupDefault, "0").Error(); err != nil {
		t.Fatal(err)
	}
	if err := do(t, q.run.Client, "XREADGROUP", "GROUP", GroupDefault, "some/body", "STREAMS", base+":s:0", ">").Error(); err != nil {
		t.Fatal(err)
	}
	all, _ = browse(t, q, BrowseConfig{Place: InFlight})
	if all[0].Consumer != "some/body" || string(all[0].Body) != "first" {
		t.Errorf("in flight = %+v, want it under the name as it is", all[0])
	}
	entry, _, _ := strings.Cut(all[0].ID, ".")
	if err := do(t, q.run.Client, "XDEL", base+":s:0", entry).Error(); err != nil {
		t.Fatal(err)
	}
	check(InFlight, len(garbled)+2)
}

// TestShard is where a tenant's messages go, whatever this process believes.
func TestShard(t *testing.T) {
	t.Parallel()
	client, name := redistest.Shared(t).Client(t), redistest.Name(t)
	q, other := openOn(t, client, name, Config{}), openOn(t, client, name, Config{Streams: 10, PerTenant: 3})
	_, err := q.Shard(t.Context(), "a")
	wantError(t, err, millrace.ErrNotFound)
	write(t, other, "a:1 a:2 a:3")
	for _, size := range [][2]int{{10, 3}, {20, 2}, {1, 1}} {
		if err := other.Resize(t.Context(), size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		sorted := shuffleshard.Get(size[0], size[1], "a")
		slices.Sort(sorted)
		shard, err := q.Shard(t.Context(), "a")
		want(t, "shard", shard, sorted, err)
	}
	if err := other.Resize(t.Context(), 10, 3); err != nil {
		t.Fatal(err)
	}
	in := map[int]bool{}
	all, _ := browse(t, q, BrowseConfig{})
	for _, m := range all {
		in[m.Stream] = true
	}
	shard, err := q.Shard(t.Context(), "a")
	want(t, "streams with messages", slices.Sorted(maps.Keys(in)), shard, err)
}
