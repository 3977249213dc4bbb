package settings

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

// TestChange of each setting, and of one that is being changed.
func TestChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, ctx := newMemory(directory.Settings{}), t.Context()
		for _, edit := range []func(s *directory.Settings){
			func(s *directory.Settings) { s.ViewTTL = 3 * time.Second },
			func(s *directory.Settings) { s.ReplyTimeout = time.Second },
			func(s *directory.Settings) { s.PlacementTTL = 5 * time.Second },
			func(s *directory.Settings) { s.MaxTags = 7 },
			func(s *directory.Settings) { s.MaxFill = 70 },
			func(s *directory.Settings) { s.Confirmed = 2 },
			func(s *directory.Settings) { s.ViewTTL = 0 },
		} {
			before, err := dir.Confirm(ctx, 0)
			must(t, err)
			want := before.Settings
			edit(&want)
			after, err := Change(ctx, dir, edit, Config{})
			must(t, err)
			again, err := Change(ctx, dir, edit, Config{})
			must(t, err)
			if after.Settings != want || after.Next != nil || after.Epoch != before.Epoch+2 || again.Epoch != after.Epoch {
				t.Errorf("the map is %+v, then %+v, want the settings %+v after two maps, and no more", after, again, want)
			}
		}
		_, err := Change(ctx, dir, func(s *directory.Settings) { s.MaxFill = 101 }, Config{})
		wantError(t, err, millrace.ErrBadArgument)

		cutOff := func(edit func(s *directory.Settings)) *directory.Map {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := Change(short, dir, edit, Config{})
			wantError(t, err, context.DeadlineExceeded)
			m, err := dir.Confirm(ctx, 0)
			must(t, err)
			return m
		}
		cut := cutOff(func(s *directory.Settings) { s.MaxTags = 8 })
		back, err := Change(ctx, dir, func(s *directory.Settings) { s.MaxTags = 7 }, Config{})
		must(t, err)
		if back.Settings != cut.Settings || back.Next != nil || back.Epoch != cut.Epoch+1 {
			t.Errorf("a change that was taken back leaves %+v, want one map like that before", back)
		}
		cut = cutOff(func(s *directory.Settings) { s.MaxTags = 8 })
		same, err := Change(ctx, dir, func(s *directory.Settings) { s.MaxFill = 70 }, Config{}) // which it is
		must(t, err)
		if same.Settings.MaxTags != 8 || same.Epoch != cut.Epoch+1 {
			t.Errorf("a change that was cut off leads to %+v, want it completed", same)
		}
		cutOff(func(s *directory.Settings) { s.MaxTags = 9 })
		both, err := Change(ctx, dir, func(s *directory.Settings) { s.MaxFill = 60 }, Config{})
		must(t, err)
		if both.Settings.MaxTags != 9 || both.Settings.MaxFill != 60 || both.Next != nil {
			t.Errorf("two changes, the first one cut off, lead to %+v", both.Settings)
		}
	})
}

// TestFinish: an agent completes what was cut off, and leaves what was taken back.
func TestFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := newMemory(directory.Settings{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Finish(ctx, dir, Config{}, slog.New(slog.DiscardHandler)) }()
		announce := func(tags int64) *directory.Map {
			m, err := dir.Confirm(ctx, 0)
			must(t, err)
			m, err = replace(ctx, dir, m, func(m *directory.Map) {
				m.Next = &directory.Next{Since: m.Epoch, Settings: directory.Settings{MaxTags: tags}}
			})
			must(t, err)
			return m
		}
		m := announce(7)
		time.Sleep(5 * time.Second)
		_, err := replace(ctx, dir, m, func(m *directory.Map) { m.Next = nil })
		must(t, err)
		announce(8)
		time.Sleep(5 * time.Second)
		if now, err := dir.Confirm(ctx, 0); err != nil || now.Next == nil {
			t.Errorf("the map is %+v, %v, want the change left to the command for a while", now, err)
		}
		time.Sleep(10 * time.Second)
		if now, err := dir.Confirm(ctx, 0); err != nil || now.Next != nil || now.Settings.MaxTags != 8 {
			t.Errorf("the map is %+v, %v, want the change completed", now, err)
		}
		stop()
		wantError(t, <-done, context.Canceled)
	})
}

// TestConfirmed: elections rely on more copies only when all that writers with fewer copies
// confirmed has them, and such writers are refused before.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2)
	ctx := t.Context()
	one, none := tf.open(fleet.Config{WaitReplicas: 1}), tf.open(fleet.Config{})
	tf.replicas[1].Pause()
	redistest.Eventually(t, "a write has one copy", func() bool { return set(ctx, one, "{a}") == nil })

	told := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		_, err := Change(ctx, tf.dir, func(s *directory.Settings) { s.Confirmed = 2 }, Config{Option: slowly, Progress: func(step string) { told <- step }})
		done <- err
	}()
	for waits := false; !waits; {
		select {
		case step := <-told:
			waits = strings.HasPrefix(step, "not yet")
		case err := <-done:
			t.Fatalf("the change is complete, %v, and a confirmed write has one copy", err)
		}
	}
	if m := tf.present(); m.Waits().Confirmed != 1 {
		t.Errorf("elections rely on %d copies, and a confirmed write has one", m.Waits().Confirmed)
	}
	if err := set(ctx, one, "{b}"); !errors.Is(err, millrace.ErrBadArgument) || millrace.Hint(err) == "" {
		t.Errorf("a write that waits for one replica = %v, want ErrBadArgument with a hint", err)
	}
	must(t, set(ctx, none, "{c}"))

	tf.replicas[1].Resume()
	must(t, <-done)
	if m := tf.present(); m.Waits().Confirmed != 2 || m.Next != nil {
		t.Errorf("the map is %+v, want it to rely on 2 copies", m)
	}
	must(t, set(ctx, tf.open(fleet.Config{WaitReplicas: 2}), "{d}"))
	_, err := Change(ctx, tf.dir, func(s *directory.Settings) { s.Confirmed = 1 }, Config{Option: slowly})
	must(t, err)
	redistest.Eventually(t, "writers may wait for one replica again", func() bool { return set(ctx, one, "{b}") == nil })
}

// TestALongCallWaitsForAsManyReplicas as failovers rely on when it returns, whatever they
// relied on when it began.
func TestALongCallWaitsForAsManyReplicas(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1)
	ctx := t.Context()
	one, none := tf.open(fleet.Config{WaitReplicas: 1}), tf.open(fleet.Config{})
	must(t, set(ctx, none, "{q}"))
	moved := make(chan error, 1)
	go func() {
		c := one.Client()
		moved <- c.Do(ctx, c.B().Blmove().Source("{q}from").Destination("{q}to").Left().Left().Timeout(0).Build()).Error()
	}()
	c := none.Partitions()[0]
	redistest.Eventually(t, "the call blocks", func() bool {
		info, err := c.Do(ctx, c.B().Info().Section("clients").Build()).ToString()
		return err == nil && strings.Contains(info, "blocked_clients:1")
	})
	tf.announce(func(s *directory.Settings) { s.Confirmed = 2 })
	redistest.Eventually(t, "the client has the map", func() bool { return errors.Is(set(ctx, one, "{a}"), millrace.ErrBadArgument) })
	w := none.Client()
	must(t, w.Do(ctx, w.B().Rpush().Key("{q}from").Element("x").Build()).Error())
	wantError(t, <-moved, millrace.ErrUncertain)
}

// TestARememberedPlaceIsForgottenInTime: a client remembers a tag for the former, longer
// time, and the tag is forgotten by the next one.
func TestARememberedPlaceIsForgottenInTime(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 0)
	ctx := t.Context()
	_, err := Change(ctx, tf.dir, func(s *directory.Settings) { s.PlacementTTL = 3 * time.Second }, Config{})
	must(t, err)
	remembers := tf.open(fleet.Config{})
	must(t, set(ctx, remembers, "{a}"))
	c := remembers.Client()
	must(t, c.Do(ctx, c.B().Del().Key("{a}").Build()).Error())

	_, err = Change(ctx, tf.dir, func(s *directory.Settings) { s.PlacementTTL = quick.PlacementTTL }, Config{})
	must(t, err)
	forgets := tf.open(fleet.Config{}) // it knows only the next settings
	must(t, forgets.Forget(ctx, "a"))
	must(t, set(ctx, remembers, "{a}"))
	if l, err := forgets.Locate(ctx, "a"); err != nil || l.How == fleet.Nowhere {
		t.Errorf("a tag that was just written is %s, %v", l.How, err)
	}
}
