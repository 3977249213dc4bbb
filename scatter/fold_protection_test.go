package scatter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// A move is one way in which moving values could lose or double something. It returns
// an error if it did. The key n holds 5 on the server s0, which leaves, and 3 on s1,
// where its parcels go; s2 is closed.
type move struct {
	name string
	play func(g *group, f *folding) error
}

func (g *group) n() string { return g.prefix + "n" }

// wantSums returns an error unless the counter has these values in this epoch, and had
// in the one that was ended by a reset to epoch 1.
func (g *group) wantSums(now, ended int64) error {
	r := g.again().Gather()
	a, b := r.Int(g.n()), r.Int(g.Ended(1, g.n()))
	if err := r.Read(g.Context()); err != nil {
		return err
	}
	if a.Value != now || b.Value != ended {
		return fmt.Errorf("the counter is %d, and was %d before; want %d and %d", a.Value, b.Value, now, ended)
	}
	return nil
}

// packed takes the parcel of the counter.
func (g *group) packed(f *folding) *parcel {
	g.Helper()
	p, _, err := f.take(g.Context(), g.n(), "s1", Sum)
	if err != nil || p == nil {
		g.Fatalf("take = %v, %v", p, err)
	}
	return p
}

// ended delivers a parcel and ends the fold.
func (g *group) ended(f *folding, p *parcel) error {
	err := f.deliver(g.Context(), p)
	if err == nil {
		_, err = f.end(g.Context())
	}
	return err
}

// dieBefore is a fold by another process that dies before the first call of a script.
func (g *group) dieBefore(name string) error {
	ctx, kill := context.WithCancelCause(g.Context())
	defer kill(nil)
	_, err := g.again(deadly{name, kill}).Fold(ctx, "s0", g.match())
	if !killed(err) {
		return fmt.Errorf("a fold that is killed = %w", err)
	}
	return nil
}

type deadly struct {
	script string
	kill   context.CancelCauseFunc
}

func (d deadly) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Script == d.script {
		d.kill(errKilled)
	}
	return ctx, nil
}

var movesOfAll = []move{
	{"taken twice", func(g *group, f *folding) error {
		g.packed(f)
		must(g.T, g.direct[0], "INCRBY", g.n(), "10")
		if err := f.deliver(g.Context(), g.packed(f)); err != nil {
			return err
		}
		_, err := g.Fold(g.Context(), "s0", g.match())
		return errors.Join(err, g.wantSums(18, 0))
	}},
	{"put twice", func(g *group, f *folding) error {
		p := g.packed(f)
		return errors.Join(f.deliver(g.Context(), p), f.deliver(g.Context(), p), g.wantSums(8, 0))
	}},
	{"put after the end", func(g *group, f *folding) error {
		p := g.packed(f)
		if err := g.ended(f, p); err != nil {
			return err
		}
		if err := f.deliver(g.Context(), p); !errors.Is(err, ErrFold) {
			return fmt.Errorf("a parcel of a fold that has ended = %w", err)
		}
		return g.wantSums(8, 0)
	}},
	{"done too late", func(g *group, f *folding) error {
		first := g.packed(f)
		if err := f.deliver(g.Context(), first); err != nil {
			return err
		}
		must(g.T, g.direct[0], "INCRBY", g.n(), "10")
		g.packed(f)
		return errors.Join(f.deliver(g.Context(), first), g.wantSums(18, 0))
	}},
	{"taken after the end", func(g *group, f *folding) error {
		if err := g.ended(f, g.packed(f)); err != nil {
			return err
		}
		must(g.T, g.direct[0], "INCRBY", g.n(), "10")
		if _, _, err := f.take(g.Context(), g.n(), "s1", Sum); !errors.Is(err, ErrFold) {
			return fmt.Errorf("take in a fold that has ended = %w", err)
		}
		return g.wantSums(18, 0)
	}},
	{"ended with a parcel on its way", func(g *group, f *folding) error {
		g.packed(f)
		if over, err := f.end(g.Context()); over || err != nil {
			return fmt.Errorf("end = %v, %w", over, err)
		}
		return g.wantSums(8, 0)
	}},
	{"the target leaves", func(g *group, f *folding) error {
		g.packed(f)
		if _, err := g.Fold(g.Context(), "s1", g.match()); !errors.Is(err, ErrFold) {
			return fmt.Errorf("Fold of the target = %w", err)
		}
		return nil
	}},
	{"a closed server is there", func(g *group, f *folding) error {
		if _, err := f.end(g.Context()); err != nil {
			return err
		}
		for i := range 20 {
			must(g.T, g.direct[0], "SET", fmt.Sprint(g.prefix, i), "1")
		}
		if _, err := g.Fold(g.Context(), "s0", g.match()); err != nil {
			return err
		}
		if keys := words(g.T, g.direct[2], "KEYS", g.prefix+"*"); len(keys) > 0 {
			return fmt.Errorf("the server that has left got %q", keys)
		}
		return g.wantSums(8, 0)
	}},
	{"killed before done", func(g *group, _ *folding) error {
		if err := g.dieBefore("scatter.done"); err != nil {
			return err
		}
		_, err := g.Fold(g.Context(), "s0", g.match())
		return errors.Join(err, g.wantSums(8, 0))
	}},
	{"numbers of an earlier fold were left", func(g *group, _ *folding) error {
		must(g.T, g.direct[1], "HSET", appliedKey(g.base, "s0"), "", "1", g.n(), "4")
		_, err := g.Fold(g.Context(), "s0", g.match())
		return errors.Join(err, g.wantSums(8, 0))
	}},
	{"a later fold is known", func(g *group, f *folding) error {
		applied := appliedKey(g.base, "s0")
		must(g.T, g.direct[1], "HSET", applied, "", "9000000000000000", g.n(), "4")
		if _, err := g.Fold(g.Context(), "s0", g.match()); !errors.Is(err, ErrFold) {
			return fmt.Errorf("Fold = %w", err)
		}
		must(g.T, g.direct[1], "HSET", applied, "", f.fold)
		f.fold = "1"
		if _, err := f.sc.run(g.Context(), f.others[0], f.sc.moves.part, g.base, "s0", "1"); err != nil {
			return err
		}
		if n := integer(g.T, g.direct[1], "HLEN", applied); n != 2 {
			return fmt.Errorf("an earlier fold's end has forgotten a later one's numbers")
		}
		return nil
	}},
	{"the target was reset first", func(g *group, f *folding) error {
		p := g.packed(f)
		return errors.Join(g.date(g.Context(), []string{g.n()}), g.resetOn(g.Context(), g.servers[1], "1", []string{g.n()}), f.deliver(g.Context(), p),
			g.Reset(g.Context(), 1, g.n()), g.wantSums(0, 8))
	}},
	{"the leaving one is new", func(g *group, f *folding) error {
		return errors.Join(g.resetOn(g.Context(), g.servers[1], "1", []string{g.n()}), f.deliver(g.Context(), g.packed(f)), g.wantSums(5, 3))
	}},
	{"the target was not reset yet", func(g *group, f *folding) error {
		if err := errors.Join(g.date(g.Context(), []string{g.n()}), g.resetOn(g.Context(), g.servers[0], "1", []string{g.n()})); err != nil {
			return err
		}
		must(g.T, g.direct[0], "INCRBY", g.n(), "10")
		return errors.Join(f.deliver(g.Context(), g.packed(f)), g.Reset(g.Context(), 1, g.n()), g.wantSums(10, 8))
	}},
	{"an ended value comes before the reset", func(g *group, f *folding) error {
		if err := errors.Join(g.date(g.Context(), []string{g.n()}), g.resetOn(g.Context(), g.servers[0], "1", []string{g.n()})); err != nil {
			return err
		}
		p, _, err := f.take(g.Context(), g.Ended(1, g.n()), "s1", Sum)
		if err != nil {
			return err
		}
		return errors.Join(f.deliver(g.Context(), p), g.Reset(g.Context(), 1, g.n()), g.wantSums(0, 8))
	}},
	{"reset with a parcel on its way", func(g *group, f *folding) error {
		g.packed(f)
		return errors.Join(g.Reset(g.Context(), 1, g.n()), g.wantSums(0, 8))
	}},
	{"reset twice", func(g *group, _ *folding) error {
		if err := g.Reset(g.Context(), 1, g.n()); err != nil {
			return err
		}
		must(g.T, g.direct[1], "INCRBY", g.n(), "2")
		return errors.Join(g.Reset(g.Context(), 1, g.n()), g.wantSums(2, 8))
	}},
	{"dated too late", func(g *group, _ *folding) error {
		ctx := g.Context()
		if err := g.resetOn(ctx, g.servers[1], "2", []string{g.n()}); err != nil {
			return err
		}
		if _, err := g.run(ctx, g.servers[1], g.moves.date, g.base, g.n(), "1"); err != nil {
			return err
		}
		if got := text(g.T, g.direct[1], "HGET", epochsKey(g.base), g.n()); got != "2" {
			return fmt.Errorf("the epoch went back to %s", got)
		}
		return nil
	}},
	{"the one here lives longer", func(g *group, f *folding) error {
		must(g.T, g.direct[0], "PEXPIRE", g.n(), "60000")
		must(g.T, g.direct[1], "PEXPIRE", g.n(), "180000")
		if err := f.deliver(g.Context(), g.packed(f)); err != nil {
			return err
		}
		if ttl := integer(g.T, g.direct[1], "PTTL", g.n()); ttl < 120_000 {
			return fmt.Errorf("it expires in %d ms", ttl)
		}
		return g.wantSums(8, 0)
	}},
	{"the one here lives for ever", func(g *group, f *folding) error {
		must(g.T, g.direct[0], "PEXPIRE", g.n(), "60000")
		if err := f.deliver(g.Context(), g.packed(f)); err != nil {
			return err
		}
		if ttl := integer(g.T, g.direct[1], "PTTL", g.n()); ttl != -1 {
			return fmt.Errorf("it expires in %d ms", ttl)
		}
		return g.wantSums(8, 0)
	}},
	{"a part expires", func(g *group, f *folding) error {
		args := []string{"SADD", g.prefix + "set"}
		for i := range 1500 {
			args = append(args, fmt.Sprint(i))
		}
		must(g.T, g.direct[0], args...)
		must(g.T, g.direct[0], "PEXPIRE", g.prefix+"set", "60000")
		p, _, err := f.take(g.Context(), g.prefix+"set", "s1", Sum)
		if err == nil {
			err = f.deliver(g.Context(), p)
		}
		if ttl := integer(g.T, g.direct[1], "PTTL", g.prefix+"set"); err != nil || ttl <= 0 {
			return fmt.Errorf("what had a minute left arrives with %d ms, %w", ttl, err)
		}
		return nil
	}},
}

// On servers of their own, of which one is full.
var movesOnFull = []move{
	{"the target is full", func(g *group, f *folding) error {
		must(g.T, g.direct[0], "SADD", g.prefix+"set", "m")
		p, _, err := f.take(g.Context(), g.prefix+"set", "s1", Sum)
		if err != nil {
			return err
		}
		must(g.T, g.direct[1], "CONFIG", "SET", "maxmemory", "1")
		if err := f.deliver(g.Context(), p); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("a full target takes a parcel: %w", err)
		}
		return nil
	}},
	{"a full server is closed", func(g *group, f *folding) error {
		must(g.T, g.direct[0], "CONFIG", "SET", "maxmemory", "1")
		return f.close(g.Context())
	}},
	{"a full server is left", func(g *group, f *folding) error {
		args := []string{"RPUSH", g.prefix + "list"}
		for i := range 1500 {
			args = append(args, fmt.Sprint(i, " x"))
		}
		must(g.T, g.direct[0], args...)
		must(g.T, g.direct[0], "CONFIG", "SET", "maxmemory", "1")
		_, _, err := f.take(g.Context(), g.prefix+"list", "s1", Sum)
		return err
	}},
	{"a full server is reset", func(g *group, _ *folding) error {
		must(g.T, g.direct[0], "CONFIG", "SET", "maxmemory", "1")
		return g.Reset(g.Context(), 1, g.prefix+"nothing")
	}},
}

// moveProtections are what keeps values whole on the move, and how to take it out.
var moveProtections = []struct {
	name, old, replacement string
	moves                  []string // those that must catch it
}{
	{"a key has one parcel", "if not note then", "if true then", []string{"taken twice"}},
	{"a parcel is put down once", "if tonumber(known[2] or 0) >= tonumber(ARGV[5]) then", "if false then", []string{"put twice", "killed before done"}},
	{"a parcel is put down in its fold", "if known[1] ~= ARGV[3] then", "if false then", []string{"put after the end"}},
	{"done removes its own parcel", " or string.match(note, '^%d+') ~= ARGV[3]", "", []string{"done too late"}},
	{"nothing is taken after the end", " then\n  return {'ended'}", " and false then\n  return {'ended'}", []string{"taken after the end"}},
	{"no end with a parcel on its way", "if redis.call('HLEN', base .. ':out') > 0 then", "if false then", []string{"ended with a parcel on its way"}},
	{"a target does not leave", " == 1 then\n    return {'target'", " == 2 then\n    return {'target'", []string{"the target leaves"}},
	{"who leaves is no target", "if closed then", "if false then", []string{"a closed server is there"}},
	{"the numbers of a fold are kept", "if known ~= ARGV[3] then", "if true then", []string{"killed before done"}},
	{"those of earlier ones are not", "redis.call('UNLINK', applied)\n  redis", "redis", []string{"numbers of an earlier fold were left"}},
	{"a later fold counts", "if known and tonumber(known) > tonumber(ARGV[3]) then", "if false then", []string{"a later fold is known"}},
	{"the end of an earlier one does not", "if not known or tonumber(known) > tonumber(ARGV[3]) then", "if not known then", []string{"a later fold is known"}},
	{"a parcel stays in its epoch", "if name == owner and earlier(epoch, here) then", "if false then", []string{"the target was reset first"}},
	{"a parcel begins its epoch", "local begins = earlier(here, epoch)", "local begins = false",
		[]string{"the target was not reset yet", "an ended value comes before the reset"}},
	{"a reset waits for the parcel", "if redis.call('HEXISTS', base .. ':out', key) == 1 then", "if false then", []string{"reset with a parcel on its way"}},
	{"a reset is done once", "if earlier(epoch_of(key), epoch) then", "if true then", []string{"reset twice"}},
	{"a new server may have been reset since", "if here and epoch == '' then", "if false then", []string{"the leaving one is new"}},
	{"epochs do not go back", "redis.call('HSETNX'", "redis.call('HSET'", []string{"dated too late"}},
	{"the longer life counts", "math.max(ends, now + math.max(life, 0))", "ends", []string{"the one here lives longer"}},
	{"the longest life is for ever", "if ends == 0 or life == -1 then", "if ends == 0 then", []string{"the one here lives for ever"}},
	{"a part lives as long as the whole", "redis.call('PEXPIRE', parcel, life)", "local _ = life", []string{"a part expires"}},
	{"a full target refuses", "redis.call('HSET', applied, name, ARGV[5])", "redis.call('HDEL', applied, 'x')\nredis.call('HSET', applied, name, ARGV[5])", []string{"the target is full"}},
	{"closing is not refused", "redis.call('HDEL', meta, '')", "", []string{"a full server is closed"}},
	{"taking is not refused", "redis.call('HDEL', out, '')", "", []string{"a full server is left"}},
	{"a reset is not refused", "redis.call('HDEL', base .. ':epochs', '')", "", []string{"a full server is reset"}},
}

// sabotaged returns the scripts with one protection taken out.
func sabotaged(t *testing.T, old, replacement string) *moves {
	t.Helper()
	found := false
	cut := func(source string) string {
		found = found || strings.Contains(source, old)
		return strings.ReplaceAll(source, old, replacement)
	}
	m := &moves{}
	for name, one := range map[string]struct {
		into   **script.Script
		source string
	}{
		"close": {&m.close, closeSource}, "join": {&m.join, joinSource}, "take": {&m.take, takeSource},
		"put": {&m.put, putSource}, "done": {&m.done, doneSource}, "finish": {&m.finish, finishSource},
		"part": {&m.part, partSource}, "reopen": {&m.reopen, reopenSource}, "reset": {&m.reset, resetSource},
		"epochs": {&m.epochs, epochsSource}, "date": {&m.date, dateSource},
	} {
		*one.into = script.New("scatter."+name, cut(one.source), openFragment, cut(epochFragment), numberFragment)
	}
	if !found {
		t.Fatalf("no script has %q: the sabotage would prove nothing", old)
	}
	return m
}

// playMove plays a move on a group that is as moves expect it, over these servers or
// such of its own.
func playMove(t *testing.T, name string, list []Server, direct []rueidis.Client, m *moves) error {
	t.Helper()
	all := movesOfAll
	i := slices.IndexFunc(all, func(m move) bool { return m.name == name })
	if i < 0 {
		all = movesOnFull
		i = slices.IndexFunc(all, func(m move) bool { return m.name == name })
		list, direct = clients(t, startServers(t, 3))
	}
	g := newGroup(t, list, direct)
	if _, err := g.Fold(t.Context(), "s2", g.match()); err != nil {
		t.Fatal(err)
	}
	must(t, direct[0], "SET", g.n(), "5")
	must(t, direct[1], "SET", g.n(), "3")
	f := &folding{left: map[string]*leftError{}}
	ready, err := f.begin(t.Context(), g.Scatter, "s0")
	if err == nil {
		err = f.aim(t.Context(), ready)
	}
	if err != nil || !slices.Equal(f.targets, []string{"s1"}) {
		t.Fatalf("begin = %v, to %q", err, f.targets)
	}
	g.moves = m
	return all[i].play(g, f)
}

// TestMoves plays them all as they should be.
func TestMoves(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	for _, m := range slices.Concat(movesOfAll, movesOnFull) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if err := playMove(t, m.name, list, direct, standardMoves); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryMoveProtectionIsNeeded takes each protection out and expects the moves to
// notice.
func TestEveryMoveProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	list, direct := clients(t, startServers(t, 3))
	for _, p := range moveProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.moves {
				if err := playMove(t, name, list, direct, sabotaged(t, p.old, p.replacement)); err == nil {
					t.Errorf("%q holds without the protection", name)
				}
			}
		})
	}
}
