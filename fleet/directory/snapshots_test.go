package directory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/luacheck"
)

func TestSnapshotScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	keys := func(base string) []string { return []string{snapshotsKey(base), turnsKey(base)} }
	for name, source := range map[string]string{"directory.snapped": snappedSource, "directory.turn": turnSource} {
		for _, p := range luacheck.Check(name, source, luacheck.Options{Keys: keys}) {
			t.Error(p)
		}
	}
}

// snapshots returns what is known, by partition and without times, which must be
// those of attempts that began so long ago.
func snapshots(t *testing.T, d *Redis, ago time.Duration) []Snapshot {
	t.Helper()
	all, now, err := d.Snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := range all {
		for _, at := range []*time.Time{&all[i].Saved.At, &all[i].Archived.At, &all[i].Failed.At} {
			if age := now.Sub(*at); !at.IsZero() && (age < ago || age > ago+time.Minute) {
				t.Errorf("partition %d has a time %v ago, want %v", all[i].Partition, age, ago)
			}
			*at = time.Time{}
		}
	}
	return all
}

func TestSnapped(t *testing.T) {
	t.Parallel()
	d, _ := start(t)
	if got := snapshots(t, d, 0); len(got) != 0 {
		t.Errorf("Snapshots at first = %+v, want none", got)
	}
	const ago = time.Hour
	began := time.Now().Add(-ago)
	want := []Snapshot{
		{
			Partition: 0,
			Saved:     Saved{Addr: "a:1", Node: "a", Took: 1500 * time.Millisecond, Memory: 1 << 40, Copied: 12},
			Archived:  Archived{Addr: "a:1", File: `x "y".rdb`, Bytes: 1 << 41},
		},
		{Partition: 12, Failed: Failed{Why: "no member\nanswers"}},
	}
	for range 2 { // a repeat does no harm
		for _, s := range want {
			if err := d.Snapped(t.Context(), began, s); err != nil {
				t.Fatal(err)
			}
		}
		if diff := gocmp.Diff(want, snapshots(t, d, ago)); diff != "" {
			t.Errorf("Snapshots (-want +got):\n%s", diff)
		}
	}

	// A failure leaves what was saved, and a success ends it.
	for _, s := range []Snapshot{
		{Partition: 0, Saved: Saved{Addr: "b:1"}, Failed: Failed{Addr: "b:1", Why: "the archive is full"}},
		{Partition: 12, Saved: Saved{Addr: "c:1"}},
	} {
		if err := d.Snapped(t.Context(), began.Add(time.Second), s); err != nil {
			t.Fatal(err)
		}
	}
	want[0].Saved, want[0].Failed = Saved{Addr: "b:1"}, Failed{Addr: "b:1", Why: "the archive is full"}
	want[1].Saved, want[1].Failed = Saved{Addr: "c:1"}, Failed{}
	if diff := gocmp.Diff(want, snapshots(t, d, ago-time.Second)); diff != "" {
		t.Errorf("Snapshots (-want +got):\n%s", diff)
	}
}

func TestSnapshotsThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	d, server := start(t)
	for field, text := range map[string]string{"x:saved": "1 {}", "1:saved": "x {}", "1:archived": "1 x", "1:failed": "1"} {
		must(t, server.Client(t), "DEL", snapshotsKey(baseKey))
		must(t, server.Client(t), "HSET", snapshotsKey(baseKey), field, text)
		if _, _, err := d.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Snapshots with %s = %q: %v, want an error that names it", field, text, err)
		}
	}
}

// A keeperHistory plays one way in which keepers could get in each other's way, with
// scripts of its own, and returns an error if they did.
type keeperHistory struct {
	name string
	play func(t *testing.T, d *Redis, server *redistest.Server, snapped, turn *script.Script) error
}

// told runs the script of an attempt that began so many milliseconds ago.
func told(t *testing.T, d *Redis, s *script.Script, ago int, saved, failed string) error {
	t.Helper()
	_, _, err := d.write(t.Context(), s, "1", fmt.Sprint(ago), saved, "", failed)
	return err
}

// takes expects what the script of a turn says.
func takes(t *testing.T, d *Redis, s *script.Script, holder, life string, want int64) error {
	t.Helper()
	reply, _, err := d.write(t.Context(), s, "n", holder, life)
	if err != nil {
		return err
	}
	if got, err := reply.AsInt64(); err != nil || got != want {
		return fmt.Errorf("turn %s %s = %d, %w, want %d", holder, life, got, err, want)
	}
	return nil
}

var keeperHistories = []keeperHistory{
	{"an older snapshot is told later", func(t *testing.T, d *Redis, _ *redistest.Server, snapped, _ *script.Script) error {
		if err := errors.Join(told(t, d, snapped, 1000, `{"addr":"new:1"}`, ""), told(t, d, snapped, 60_000, `{"addr":"old:1"}`, "")); err != nil {
			return err
		}
		if all, _, err := d.Snapshots(t.Context()); err != nil || all[0].Saved.Addr != "new:1" {
			return fmt.Errorf("Snapshots = %+v, %w", all, err)
		}
		return nil
	}},
	{"a success ends a failure", func(t *testing.T, d *Redis, _ *redistest.Server, snapped, _ *script.Script) error {
		if err := errors.Join(told(t, d, snapped, 2000, "", `{"why":"x"}`), told(t, d, snapped, 1000, `{"addr":"a:1"}`, "")); err != nil {
			return err
		}
		if all, _, err := d.Snapshots(t.Context()); err != nil || all[0].Failed.Why != "" {
			return fmt.Errorf("Snapshots = %+v, %w", all, err)
		}
		return nil
	}},
	{"two take a turn", func(t *testing.T, d *Redis, _ *redistest.Server, _, turn *script.Script) error {
		return errors.Join(takes(t, d, turn, "a", "60000", 1), takes(t, d, turn, "b", "60000", 0), takes(t, d, turn, "b", "0", 0), takes(t, d, turn, "b", "60000", 0))
	}},
	{"a turn is renewed and given up", func(t *testing.T, d *Redis, server *redistest.Server, _, turn *script.Script) error {
		err := errors.Join(takes(t, d, turn, "a b", "60000", 1), takes(t, d, turn, "a b", "60000", 1), takes(t, d, turn, "a b", "0", 1))
		if n := integer(t, server.Client(t), "EXISTS", turnsKey(baseKey)); n != 0 {
			return errors.Join(err, errors.New("the turn is still there"))
		}
		return err
	}},
	{"a holder dies", func(t *testing.T, d *Redis, server *redistest.Server, _, turn *script.Script) error {
		must(t, server.Client(t), "HSET", turnsKey(baseKey), "n", "1000 a")
		return takes(t, d, turn, "b", "60000", 1)
	}},
}

func TestKeeperHistories(t *testing.T) {
	t.Parallel()
	for _, h := range keeperHistories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			d, server := start(t)
			if err := h.play(t, d, server, snappedScript, turnScript); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryKeeperProtectionIsNeeded takes each protection out and expects a history
// to notice.
func TestEveryKeeperProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range []struct{ history, old, replacement string }{
		{"an older snapshot is told later", "tonumber(string.match(stored, '^%d+')) <= at", "true"},
		{"a success ends a failure", "redis.call('HDEL', snapshots, field)", ""},
		{"two take a turn", "holder ~= ARGV[2]", "false"},
		{"a turn is renewed and given up", "holder ~= ARGV[2]", "true"},
		{"a turn is renewed and given up", "redis.call('HDEL', turns, ARGV[1])", ""},
		{"a holder dies", "tonumber(last) > now", "true"},
	} {
		t.Run(p.old, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(snappedSource+turnSource, p.old) {
				t.Fatalf("no script has %q: the sabotage would prove nothing", p.old)
			}
			cut := func(source string) *script.Script {
				return script.New("directory.sabotaged", strings.ReplaceAll(source, p.old, p.replacement))
			}
			d, server := start(t)
			i := slices.IndexFunc(keeperHistories, func(h keeperHistory) bool { return h.name == p.history })
			if err := keeperHistories[i].play(t, d, server, cut(snappedSource), cut(turnSource)); err == nil {
				t.Errorf("history %q holds without the protection", p.history)
			}
		})
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	d, _ := start(t)
	for _, call := range []struct {
		node, holder string
		life         time.Duration
		want         bool
	}{
		{"n", "a", time.Minute, true},
		{"n", "b", time.Minute, false},
		{"other", "b", time.Minute, true},
		{"n", "a", 0, true},
		{"n", "b", time.Minute, true},
	} {
		if got, err := d.Turn(t.Context(), call.node, call.holder, call.life); err != nil || got != call.want {
			t.Errorf("Turn(%s, %s, %v) = %t, %v, want %t", call.node, call.holder, call.life, got, err, call.want)
		}
	}
}
