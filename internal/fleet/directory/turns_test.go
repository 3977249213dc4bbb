package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// A turnHistory plays one way in which those who work on a fleet could get in each
// other's way, and returns an error if they did.
type turnHistory struct {
	name string
	play func(t *testing.T, d *Redis, server *redistest.Server) error
}

// told runs the script of an attempt that began so many milliseconds ago.
func told(t *testing.T, d *Redis, ago int, saved, failed string) error {
	t.Helper()
	_, _, err := d.write(t.Context(), "snapped", "1", fmt.Sprint(ago), saved, "", failed)
	return err
}

// takes expects what the script of a turn says.
func takes(t *testing.T, d *Redis, holder, life string, want int64) error {
	t.Helper()
	reply, _, err := d.write(t.Context(), "turn", "n", holder, life)
	if err != nil {
		return err
	}
	if got := reply.Int(); reply.Err() != nil || got != want {
		return fmt.Errorf("turn %s %s = %d, %w, want %d", holder, life, got, reply.Err(), want)
	}
	return nil
}

// moves expects what the script of a run that moves tags says.
func moves(t *testing.T, d *Redis, run string, life time.Duration, adopt, want bool) error {
	t.Helper()
	got := true
	var err error
	if adopt {
		got, err = d.Adopt(t.Context(), run, life)
	} else {
		err = d.Moving(t.Context(), run, life)
	}
	if err != nil || got != want {
		return fmt.Errorf("moves %s %v adopt %t = %t, %w, want %t", run, life, adopt, got, err, want)
	}
	return nil
}

// cutOff has a run be one that has not said for long that it goes on.
func cutOff(t *testing.T, server *redistest.Server, run string) {
	t.Helper()
	must(t, server.Client(t), "HSET", baseKey+":moves", run, "1000")
}

var turnHistories = []turnHistory{
	{"an older snapshot is told later", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		if err := errors.Join(told(t, d, 1000, `{"addr":"new:1"}`, ""), told(t, d, 60_000, `{"addr":"old:1"}`, "")); err != nil {
			return err
		}
		if all, _, err := d.Snapshots(t.Context()); err != nil || all[0].Saved.Addr != "new:1" {
			return fmt.Errorf("Snapshots = %+v, %w", all, err)
		}
		return nil
	}},
	{"a success ends a failure", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		if err := errors.Join(told(t, d, 2000, "", `{"why":"x"}`), told(t, d, 1000, `{"addr":"a:1"}`, "")); err != nil {
			return err
		}
		if all, _, err := d.Snapshots(t.Context()); err != nil || all[0].Failed.Why != "" {
			return fmt.Errorf("Snapshots = %+v, %w", all, err)
		}
		return nil
	}},
	{"two take a turn", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		return errors.Join(takes(t, d, "a", "60000", 1), takes(t, d, "b", "60000", 0), takes(t, d, "b", "0", 0), takes(t, d, "b", "60000", 0))
	}},
	{"a turn is renewed and given up", func(t *testing.T, d *Redis, server *redistest.Server) error {
		err := errors.Join(takes(t, d, "a b", "60000", 1), takes(t, d, "a b", "60000", 1), takes(t, d, "a b", "0", 1))
		if n := integer(t, server.Client(t), "EXISTS", baseKey+":turns"); n != 0 {
			return errors.Join(err, errors.New("the turn is still there"))
		}
		return err
	}},
	{"a holder dies", func(t *testing.T, d *Redis, server *redistest.Server) error {
		must(t, server.Client(t), "HSET", baseKey+":turns", "n", "1000 a")
		return takes(t, d, "b", "60000", 1)
	}},
	{"nothing was cut off", func(t *testing.T, d *Redis, _ *redistest.Server) error {
		return errors.Join(moves(t, d, "b", time.Minute, true, false), moves(t, d, "a", time.Minute, false, true),
			moves(t, d, "b", time.Minute, true, false))
	}},
	{"a run ends", func(t *testing.T, d *Redis, server *redistest.Server) error {
		err := errors.Join(moves(t, d, "a", time.Minute, false, true), moves(t, d, "a", 0, false, true))
		if n := integer(t, server.Client(t), "EXISTS", baseKey+":moves"); n != 0 {
			return errors.Join(err, errors.New("it is still remembered"))
		}
		return err
	}},
	{"two adopt what was cut off", func(t *testing.T, d *Redis, server *redistest.Server) error {
		cutOff(t, server, "dead")
		return errors.Join(moves(t, d, "b", time.Minute, true, true), moves(t, d, "b", time.Minute, true, true),
			moves(t, d, "c", time.Minute, true, false))
	}},
	{"one is cut off while another goes on", func(t *testing.T, d *Redis, server *redistest.Server) error {
		cutOff(t, server, "dead")
		return errors.Join(moves(t, d, "a", time.Minute, false, true), moves(t, d, "b", time.Minute, true, false),
			moves(t, d, "a", 0, false, true), moves(t, d, "b", time.Minute, true, true))
	}},
	{"what was adopted is finished", func(t *testing.T, d *Redis, server *redistest.Server) error {
		cutOff(t, server, "dead")
		return errors.Join(moves(t, d, "b", time.Minute, true, true), moves(t, d, "b", 0, false, true),
			moves(t, d, "c", time.Minute, true, false))
	}},
}

func TestTurnHistories(t *testing.T) {
	t.Parallel()
	for _, h := range turnHistories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			d, server := start(t)
			if err := h.play(t, d, server); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryTurnProtectionIsNeeded takes each protection out and expects a history
// to notice.
func TestEveryTurnProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range []struct{ history, old, replacement string }{
		{"an older snapshot is told later", "tonumber(string.match(stored, '^%d+')) <= at", "true"},
		{"a success ends a failure", "redis.call('HDEL', snapshots, field)", ""},
		{"two take a turn", "holder ~= ARGV[2]", "false"},
		{"a turn is renewed and given up", "holder ~= ARGV[2]", "true"},
		{"a turn is renewed and given up", "redis.call('HDEL', turns, ARGV[1])", ""},
		{"a holder dies", "tonumber(last) > now", "true"},
		{"nothing was cut off", "#runs == 0", "false"},
		{"nothing was cut off", "tonumber(runs[i]) > now", "false"},
		{"a run ends", "redis.call('HDEL', moves, ARGV[1])", ""},
		{"two adopt what was cut off", "tonumber(runs[i]) > now", "false"},
		{"two adopt what was cut off", "runs[i - 1] ~= ARGV[1]", "true"},
		{"one is cut off while another goes on", "tonumber(runs[i]) > now", "false"},
		{"what was adopted is finished", "redis.call('DEL', moves)", ""},
	} {
		t.Run(p.old, func(t *testing.T) {
			t.Parallel()
			d, server := start(t)
			d.servers[0].Scripts = scripttest.Without(t, library, p.old, p.replacement)
			i := slices.IndexFunc(turnHistories, func(h turnHistory) bool { return h.name == p.history })
			if err := turnHistories[i].play(t, d, server); err == nil {
				t.Errorf("history %q holds without the protection", p.history)
			}
		})
	}
}

// TestTurnIsKept: a turn that lasts is renewed.
func TestTurnIsKept(t *testing.T) {
	t.Parallel()
	dir := &fakeDirectory{calls: make(chan turnCall, 10)}
	end, err := takeTurn(t.Context(), dir, "n", 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	first := <-dir.calls
	for range 3 {
		if again := <-dir.calls; again != first {
			t.Errorf("renewed by %+v, want %+v", again, first)
		}
	}
	end()
	var last turnCall
	for len(dir.calls) > 0 {
		last = <-dir.calls
	}
	if want := (turnCall{"n", first.holder, 0}); last != want {
		t.Errorf("ended by %+v, want %+v", last, want)
	}
	dir.taken = true
	if _, err := takeTurn(t.Context(), dir, "n", time.Minute); !errors.Is(err, ErrTurn) {
		t.Errorf("turn of another: %v, want ErrTurn", err)
	}
}

type turnCall struct {
	node, holder string
	life         time.Duration
}

type fakeDirectory struct {
	Directory

	calls chan turnCall
	taken bool
}

func (d *fakeDirectory) Turn(_ context.Context, node, holder string, life time.Duration) (bool, error) {
	if d.taken {
		return false, nil
	}
	d.calls <- turnCall{node, holder, life}
	return true, nil
}
