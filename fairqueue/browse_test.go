package fairqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
)

// browse returns all pages.
func browse(t *testing.T, q *Queue, cfg BrowseConfig) (all []Message, pages int) {
	t.Helper()
	for {
		messages, next, err := q.Browse(t.Context(), cfg)
		if err != nil {
			t.Fatalf("browse %+v: %v", cfg, err)
		}
		all = append(all, messages...)
		if pages++; next == "" {
			return all, pages
		}
		cfg.After = next
	}
}

func browseAll(t *testing.T, q *Queue, cfg BrowseConfig) []Message {
	t.Helper()
	all, _ := browse(t, q, cfg)
	return all
}

// bodiesOf returns the bodies of messages as words, in alphabetical order.
func bodiesOf(messages []Message) string {
	words := make([]string, len(messages))
	for i, m := range messages {
		words[i] = string(m.Body)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestBrowse follows messages from state to state, and browsing changes nothing.
func TestBrowse(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Gzip = 1
			q := open(t, cfg)
			ctx := t.Context()
			_, _, err := q.Browse(ctx, BrowseConfig{})
			wantError(t, err, millrace.ErrNotFound)

			body := strings.Repeat("hello ", 100)
			id, err := q.Write(ctx, Draft{Tenant: "a\x01\x02", Body: []byte(body), Headers: map[string]string{"k": "v"}, TTL: time.Hour, Priority: 2, Cost: 3})
			if err != nil {
				t.Fatal(err)
			}
			later, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte("later"), Delay: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			look := func(place State) Message {
				t.Helper()
				before := dump(t, q)
				all := browseAll(t, q, BrowseConfig{State: place})
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
			if ago := stats(t, q).At.Sub(at); ago < -time.Millisecond || ago > time.Minute {
				t.Errorf("written %v ago", ago)
			}
			if left := got.Deadline.Sub(at); left < time.Hour-time.Second || left > time.Hour {
				t.Errorf("the deadline is %v after the write, want an hour", left)
			}
			waits := Message{
				ID: id, Tenant: "a\x01\x02", Body: []byte(body), Headers: map[string]string{"k": "v"}, Stream: stream, Written: at,
				Deadline: got.Deadline, Priority: 2, Cost: 3,
			}
			want(t, "waiting", got, waits, nil)

			aside := look(Delayed)
			want(t, "delayed", aside, Message{
				ID: later, Tenant: "a", Cost: 1, Body: []byte("later"), Stream: aside.Stream, Written: aside.Written, Until: aside.Until,
			}, nil)
			if left := aside.Until.Sub(aside.Written); left < time.Hour-time.Second || left > time.Hour {
				t.Errorf("set aside for %v, want an hour", left)
			}

			want(t, "pause", nil, nil, q.Pause(ctx))
			want(t, "waiting in a paused queue", look(Waiting), waits, nil)
			want(t, "resume", nil, nil, q.Resume(ctx))

			messages, err := q.Read(ctx, ReadConfig{Visibility: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			now := stats(t, q).At
			flies := waits
			flies.Attempt, flies.Receipt = 1, messages[0].Receipt
			got = look(InFlight)
			if left := got.Until.Sub(now); left < 30*time.Second || left > time.Minute {
				t.Errorf("in flight for another %v, want a little less than a minute", left)
			}
			if since := now.Sub(got.Since); since < 0 || since > 30*time.Second {
				t.Errorf("delivered %v ago", since)
			}
			flies.Until, flies.Since = got.Until, got.Since
			want(t, "in flight", got, flies, nil)
			for range 2 {
				good, err := q.Extend(ctx, time.Hour, messages[0].Receipt)
				want(t, "extended", good, []bool{true}, err)
				got = look(InFlight)
				if left := got.Until.Sub(flies.Until); left < 50*time.Minute || left > time.Hour {
					t.Errorf("in flight for %v longer, want a little less than an hour", left)
				}
				got.Until = flies.Until
				want(t, "in flight for longer", got, flies, nil)
				wrong, err := q.Check(ctx)
				want(t, "wrong", wrong, []string(nil), err)
			}

			nack(t, q, NackConfig{}, messages[0])
			waits.Attempt = 1
			want(t, "back", look(Waiting), waits, nil)
		})
	}
}

// TestBrowsePages: as many messages a page as were asked for, each message once.
func TestBrowsePages(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	var wrote []string
	for i := range 250 {
		wrote = append(wrote, fmt.Sprintf("tenant%d:%03d", i%20, i))
	}
	write(t, q, strings.Join(wrote, " "))
	for i := range wrote {
		_, wrote[i], _ = strings.Cut(wrote[i], ":")
	}
	for most, wantPages := range map[int]int{0: 3, 1: 251, 99: 3, 125: 3, 249: 2, 251: 1, 1000: 1} {
		all, pages := browse(t, q, BrowseConfig{Max: most})
		want(t, fmt.Sprintf("messages in pages of %d", most), bodiesOf(all), strings.Join(wrote, " "), nil)
		if pages > wantPages {
			t.Errorf("%d pages of %d, want %d", pages, most, wantPages)
		}
	}
	flying := read(t, q, 100)
	all, pages := browse(t, q, BrowseConfig{State: InFlight, Max: 30})
	if len(all) != len(flying) || pages != 4 {
		t.Errorf("%d messages in flight on %d pages, want 100 on 4", len(all), pages)
	}
	for _, m := range all {
		if m.Consumed {
			t.Errorf("%s was consumed", m.ID)
		}
	}
}

// TestBrowseATenant in a crowd, in which a call looks at 1,000 messages and no more.
func TestBrowseATenant(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"tenants": {}, "streams": {Streams: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, cfg)
			for n := range 3 {
				drafts := make([]Draft, 1000)
				for i := range drafts {
					drafts[i] = Draft{Tenant: "flood", Delay: time.Duration(n%2) * time.Hour}
				}
				if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
					t.Fatal(err)
				}
			}
			write(t, q, "quiet:1 flood:x quiet:2 quiet2:no")
			if _, err := q.Write(t.Context(), Draft{Tenant: "quiet", Body: []byte("3"), Delay: time.Hour}); err != nil {
				t.Fatal(err)
			}
			for place, wanted := range map[State]string{Waiting: "1 2", InFlight: "", Delayed: "3"} {
				all, pages := browse(t, q, BrowseConfig{State: place, Tenant: "quiet", Max: 1000})
				want(t, fmt.Sprint("the quiet tenant's, ", place), bodiesOf(all), wanted, nil)
				if place == Waiting && cfg.Streams == 0 && pages != 1 {
					t.Errorf("%d pages for the two messages of a flow", pages)
				}
			}
			want(t, "nobody's", len(browseAll(t, q, BrowseConfig{Tenant: "nobody"})), 0, nil)
			for range 3 {
				read(t, q, 1000)
			}
			all, pages := browse(t, q, BrowseConfig{State: InFlight, Tenant: "quiet", Max: 1000})
			want(t, "in flight", bodiesOf(all), "1 2", nil)
			if pages > 4 {
				t.Errorf("%d pages", pages)
			}
		})
	}
}

// TestBrowseEndsBehindAMebibyte, and goes on from there.
func TestBrowseEndsBehindAMebibyte(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for i := range 8 {
		if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprint(i), Body: make([]byte, 400_000)}); err != nil {
			t.Fatal(err)
		}
	}
	all, pages := browse(t, q, BrowseConfig{})
	if len(all) != 8 || pages < 3 {
		t.Errorf("%d messages of 400 kB on %d pages", len(all), pages)
	}
	read(t, q, 1000)
	read(t, q, 1000)
	read(t, q, 1000)
	all, pages = browse(t, q, BrowseConfig{State: InFlight})
	if len(all) != 8 || pages < 3 {
		t.Errorf("%d messages of 400 kB in flight on %d pages", len(all), pages)
	}
}

// TestBrowseUndecodable: a message whose body another program changed or deleted does not hide
// the others, and carries the reason.
func TestBrowseUndecodable(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ids := write(t, q, "a:first a:deleted a:foreign a:short a:headers a:gzip a:encoding a:last")
	messages := baseKey(q.name) + ":hot"
	stored, err := do(t, q.run.Client, "HGET", messages, ids[0]).ToString()
	if err != nil {
		t.Fatal(err)
	}
	head := strings.TrimSuffix(stored, "\x00first")
	for i, text := range map[int]string{2: "x", 3: "::", 4: head + "\x01\x09{", 5: head + "\x02gzip", 6: head + "\x09x"} {
		if err := do(t, q.run.Client, "HSET", messages, ids[i], text).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do(t, q.run.Client, "HDEL", messages, ids[1])
	all := browseAll(t, q, BrowseConfig{})
	want(t, "messages", len(all), 8, nil)
	for i, m := range all {
		if undecodable := i > 0 && i < 7; (m.DecodeError != "") != undecodable {
			t.Errorf("message %d: DecodeError = %q", i, m.DecodeError)
		}
	}
}

// TestBrowseAndPurge: of messages that died in the same millisecond none is skipped when those
// of the page before are purged.
func TestBrowseAndPurge(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	for range 30 {
		if _, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	nack(t, q, NackConfig{Dead: true}, read(t, q, 30)...)
	purged := 0
	for cfg := (BrowseConfig{State: Dead, Max: 7}); ; {
		messages, next, err := q.Browse(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			n, err := q.Dead().Purge(ctx, m.ID)
			if err != nil {
				t.Fatal(err)
			}
			purged += n
		}
		if next == "" {
			break
		}
		cfg.After = next
	}
	if purged != 30 {
		t.Errorf("%d were purged page by page, want 30", purged)
	}
}

// TestARetryKeepsItsError while it is delayed, when it waits again, and when it is delivered. It vanishes with the message.
func TestARetryKeepsItsError(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1 b:2")
	m := read(t, q, 2)
	long := "\x01:4=x\x01" + strings.Repeat("é", 200)
	nack(t, q, NackConfig{Delay: time.Millisecond, Reason: "the card is declined"}, m[0])
	nack(t, q, NackConfig{Reason: long}, m[1])
	cut := " :4=x " + strings.Repeat("é", 97) // 200 bytes
	shows := func(state State, of, reason string) {
		t.Helper()
		for _, m := range browseAll(t, q, BrowseConfig{State: state}) {
			if string(m.Body) == of {
				want(t, "reason", m.Reason, reason, nil)
				return
			}
		}
		t.Fatalf("%s is not %s", of, state)
	}
	shows(Waiting, "2", cut)
	passes(t, q.run.Client, 2*time.Millisecond)
	if _, err := q.tend(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	shows(Waiting, "1", "the card is declined")
	again := read(t, q, 2)
	want(t, "reasons of deliveries", []string{again[0].Reason, again[1].Reason}, []string{"the card is declined", cut}, nil)
	shows(InFlight, "1", "the card is declined")
	nack(t, q, NackConfig{Delay: time.Hour}, again[0]) // without a reason
	shows(Delayed, "1", "the card is declined")
	nack(t, q, NackConfig{Dead: true, Reason: "enough"}, again[1])
	shows(Dead, "2", "enough")
	n, err := q.Dead().Redrive(t.Context(), again[1].ID)
	want(t, "redriven", n, 1, err)
	shows(Waiting, "2", "")
	states, err := q.Cancel(t.Context(), again[0].ID)
	want(t, "cancelled", states, []State{Delayed}, err)
	ack(t, q, read(t, q, 1)...)
	wantNothingLeft(t, q)
}
