package ick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// steerer plays the parts of a channel's producers and consumers by hand, with
// chosen knowledge of the layout.
type steerer struct {
	t      *testing.T
	c      *Channel
	marked []string
}

// epoch returns the channel's epoch now.
func (s *steerer) epoch() int64 {
	s.t.Helper()
	seen, err := s.c.reload(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return seen.epoch
}

func (s *steerer) resize(size int) int64 {
	s.t.Helper()
	if err := s.c.Resize(s.t.Context(), size); err != nil {
		s.t.Fatal(err)
	}
	return s.c.known().epoch
}

func (s *steerer) ick(index int) *Ick {
	s.t.Helper()
	k, err := s.c.ick(index)
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// add is a producer whose view of the channel is stale: it knows the Ick's index
// already. It reports whether the Ick took the mark.
func (s *steerer) add(index int, member string) bool {
	s.t.Helper()
	_, err := s.ick(index).Add(s.t.Context(), Entry{member, 1})
	switch {
	case err == nil:
		s.marked = append(s.marked, member)
	case !errors.Is(err, errRetired):
		s.t.Fatal(err)
	}
	return err == nil
}

// attend is the one consumer, which knows that epoch, reports the Icks it retired under
// it, and serves all Icks.
func (s *steerer) attend(epoch int64, retired ...int) {
	s.t.Helper()
	args := []string{"me", "60000", "1", "1", strconv.FormatInt(epoch, 10), "0"}
	for _, index := range retired {
		args = append(args, strconv.Itoa(index))
	}
	if _, err := s.c.call(s.t.Context(), "attend", args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *steerer) retire(epoch int64, indices ...int) {
	s.t.Helper()
	for _, index := range indices {
		if _, err := s.ick(index).retire(s.t.Context(), epoch); err != nil {
			s.t.Fatal(err)
		}
	}
}

// finish works off the served Icks and reports marks that remain in Icks that no
// consumer serves.
func (s *steerer) finish() error {
	s.t.Helper()
	served, err := s.c.served(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var done []string
	for index := range served.Icks {
		r, err := s.ick(index).Reserve(s.t.Context(), 10)
		if err != nil && !errors.Is(err, errRetired) {
			s.t.Fatal(err)
		}
		done = append(done, r.Members()...)
	}
	for _, m := range s.marked {
		if !slices.Contains(done, m) {
			return fmt.Errorf("%s is marked in an Ick without a consumer; %d Icks are served", m, len(served.Icks))
		}
	}
	return nil
}

var channelHistories = []struct {
	name string
	play func(s *steerer) error
}{
	{"a producer with an old size, before the Ick is retired", func(s *steerer) error {
		s.attend(s.epoch())
		epoch := s.resize(2)
		s.attend(epoch)
		s.add(3, "late")
		s.retire(epoch, 2, 3)
		s.attend(epoch, 2)
		return s.finish()
	}},
	{"a producer with an old size, afterwards", func(s *steerer) error {
		s.attend(s.epoch())
		epoch := s.resize(2)
		s.attend(epoch)
		s.retire(epoch, 2, 3)
		s.attend(epoch, 2, 3)
		s.add(3, "late")
		return s.finish()
	}},
	{"a producer that learned of a growth and slept through the shrink", func(s *steerer) error {
		s.attend(s.epoch())
		first := s.resize(2)
		s.attend(first)
		s.retire(first, 2, 3)
		s.attend(first, 2, 3)
		grown := s.resize(4)
		s.attend(grown)
		again := s.resize(2)
		s.attend(again)
		s.retire(again, 2, 3)
		s.attend(again, 2, 3)
		if err := s.ick(3).reopen(s.t.Context(), grown); err != nil {
			s.t.Fatal(err)
		}
		s.add(3, "late")
		return s.finish()
	}},
	{"a consumer that reports what it retired before the channel grew and shrank", func(s *steerer) error {
		s.attend(s.epoch())
		first := s.resize(2)
		s.attend(first)
		s.retire(first, 2, 3)
		grown := s.resize(4)
		s.resize(2)
		s.attend(first, 2, 3)
		if err := s.ick(3).reopen(s.t.Context(), grown); err != nil {
			s.t.Fatal(err)
		}
		s.add(3, "late")
		return s.finish()
	}},
	{"a retirement that was reported before the channel grew and shrank", func(s *steerer) error {
		s.attend(s.epoch())
		first := s.resize(2)
		s.attend(first)
		s.retire(first, 2, 3)
		s.attend(first, 2) // 3 is not reported yet, so both are still served
		grown := s.resize(4)
		last := s.resize(3)
		s.attend(last)
		s.retire(last, 3)
		s.attend(last, 3)
		last = s.resize(2)
		s.attend(last)
		if err := s.ick(2).reopen(s.t.Context(), grown); err != nil {
			s.t.Fatal(err)
		}
		s.add(2, "late")
		return s.finish()
	}},
	{"a failover that lost a growth", func(s *steerer) error {
		return s.report(s.loseGrowth())
	}},
	{"a failover that lost a growth, and a resize before a consumer reports", func(s *steerer) error {
		grown := s.loseGrowth()
		s.resize(2)
		return s.report(grown)
	}},
}

// channelProtections are the safeguards that keep these histories from stranding a mark.
var channelProtections = []struct{ name, old, replacement, history string }{
	{"only an empty Ick is retired", "elseif size > 0 then\n  return 0", "elseif size > 0 and false then\n  return 0", "a producer with an old size, before the Ick is retired"},
	{"a retired Ick refuses marks", "redis.call('SET', K, 'ick.retired:' .. ARGV[1])", "redis.call('SET', K, 'ick.v1')", "a producer with an old size, afterwards"},
	{"only a later epoch opens a retired Ick", "elseif tonumber(before) >= tonumber(ARGV[1]) then", "elseif false then", "a producer that learned of a growth and slept through the shrink"},
	{"retiring again takes the later epoch", "elseif before and before >= tonumber(ARGV[1]) then", "elseif before then", "a producer that learned of a growth and slept through the shrink"},
	{"what was retired under an earlier epoch does not count", "elseif known == epoch and index >= size then", "elseif index >= size then", "a consumer that reports what it retired before the channel grew and shrank"},
	{"a resize takes back what was retired", "if who == '' then\n      redis.call('HDEL', owners, index)", "if false then\n      redis.call('HDEL', owners, index)", "a retirement that was reported before the channel grew and shrank"},
	{"a later layout is adopted", "size == 0 or its_epoch > epoch", "size == 0", "a failover that lost a growth"},
	{"a later resize keeps serving what a lost one served", "0 < its_epoch and its_epoch < epoch and", "false and", "a failover that lost a growth, and a resize before a consumer reports"},
}

// loseGrowth has the channel grow to eight Icks, and a failover lose that. It returns the epoch of the growth.
func (s *steerer) loseGrowth() (grown int64) {
	s.t.Helper()
	s.attend(s.epoch())
	before := s.c.known()
	grown = s.resize(8)
	s.add(7, "new")
	if err := do(s.t, s.c.run.Client, "HSET", channelKey(s.c.name), "size", "4", "span", "4",
		"epoch", strconv.FormatInt(before.epoch, 10)).Error(); err != nil {
		s.t.Fatal(err)
	}
	return grown
}

// report has a consumer report that knows the growth, and ends the history.
func (s *steerer) report(grown int64) error {
	s.t.Helper()
	args := []string{"me", "60000", "8", "8", strconv.FormatInt(grown, 10), "0"}
	if _, err := s.c.call(s.t.Context(), "attend", args...); err != nil {
		s.t.Fatal(err)
	}
	return s.finish()
}

func steer(t *testing.T, history, old, replacement string) error {
	t.Helper()
	c := openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{})
	forChannel, forIck := channelLibrary, library
	if old != "" {
		found := false
		cut := func(_, source string) string {
			found = found || strings.Contains(source, old)
			return strings.ReplaceAll(source, old, replacement)
		}
		forChannel, forIck = channelLibrary.Edit(cut), library.Edit(cut)
		if !found {
			t.Fatalf("no script has %q: without it nothing is shown", old)
		}
	}
	c.run.Scripts = forChannel
	for index := range 8 {
		k, err := c.ick(index)
		if err != nil {
			t.Fatal(err)
		}
		useScripts(k, forIck)
	}
	for _, h := range channelHistories {
		if h.name == history {
			return h.play(&steerer{t: t, c: c})
		}
	}
	t.Fatalf("there is no history %q", history)
	return nil
}

// TestNoMarkIsStranded plays the ways in which a mark could get into an Ick that
// no consumer serves any more.
func TestNoMarkIsStranded(t *testing.T) {
	t.Parallel()
	for _, h := range channelHistories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := steer(t, h.name, "", ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionOfAChannelIsNeeded takes each protection out and expects its
// history to notice.
func TestEveryProtectionOfAChannelIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range channelProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if err := steer(t, p.history, p.old, p.replacement); err == nil {
				t.Errorf("history %q holds without the protection", p.history)
			}
		})
	}
}

// TestSpanGrowsForLostResizesOnly: a caller that knows the present epoch, or none, has missed that Icks were retired, or
// has never read the channel. It does not have them served again.
func TestSpanGrowsForLostResizesOnly(t *testing.T) {
	t.Parallel()
	s := &steerer{t: t, c: openChannel(t, redistest.Shared(t).Client(t), redistest.Name(t), ChannelConfig{})}
	s.attend(s.epoch())
	epoch := s.resize(2)
	s.attend(epoch)
	s.retire(epoch, 2, 3)
	s.attend(epoch, 2, 3)
	for _, known := range []layout{{2, 4, epoch}, {8, 8, 0}} {
		r, err := s.c.call(t.Context(), "channel", known.args()...)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readLayout(r), (layout{2, 2, epoch}); got != want {
			t.Errorf("after a caller that knows %+v the channel is %+v, want %+v", known, got, want)
		}
	}
}

// TestProducersFollow: a producer that knows an old size is refused by Ick that
// were retired, learns, and adds where the mark belongs now; one that grew again
// opens them.
func TestProducersFollow(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	name := redistest.Name(t)
	cfg := ChannelConfig{Size: 4, Shard: digit}
	stale, c := openChannel(t, client, name, cfg), openChannel(t, client, name, cfg)
	ctx := t.Context()
	add := func(producer *Channel, member string) {
		t.Helper()
		producer.mu.Lock()
		producer.readAt = producer.readAt.AddDate(1, 0, 0) // it relies on its own copy
		producer.mu.Unlock()
		added, err := producer.Add(ctx, Entry{member, 1})
		want(t, "add "+member, added, Added{New: 1}, err)
	}
	if _, err := stale.load(ctx); err != nil {
		t.Fatal(err)
	}
	s := &steerer{t: t, c: c}
	epoch := s.resize(2)
	s.attend(epoch)
	s.retire(epoch, 2, 3)
	s.attend(epoch, 2, 3)
	add(stale, "a3")
	want(t, "layout", layoutOf(t, c, 4), "|a3||", nil)
	s.resize(4)
	add(stale, "b3") // it still knows 2
	want(t, "layout", layoutOf(t, c, 4), "|a3 b3||", nil)
	if _, err := stale.reload(ctx); err != nil {
		t.Fatal(err)
	}
	add(stale, "c3")
	want(t, "layout", layoutOf(t, c, 4), "|a3 b3||c3", nil)

	// The gem's producers know nothing of channels. Its scripts refuse a version
	// that they do not know, so nothing is lost in silence.
	epoch = s.resize(2)
	s.attend(epoch)
	s.retire(epoch, 2)
	version, err := do(t, client, "GET", name+"/2").ToString()
	if err != nil || version == "ick.v1" || !strings.HasPrefix(version, retired) {
		t.Errorf("version of a retired Ick = %q, %v, want one that the gem refuses", version, err)
	}
	_, err = openOn(t, client, name+"/2", Config{}).AddNow(ctx, "z2")
	wantError(t, err, errRetired)
	wantError(t, openOn(t, client, name+"/2", Config{}).Consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error { return nil }), errRetired)
}
