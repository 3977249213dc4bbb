package rebalance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A history plays one way in which a tag could be moved wrongly, and returns an error
// if it was. The tag is in partition 0 of a fleet, with three keys, and is to be moved
// to partition 1.
type history struct {
	name string
	play func(tf *testFleet, m *Mover, tag string) error
}

// at has a mover do something before a step is done the first time.
func at(m *Mover, step string, what func()) {
	inner, done := m.step, false
	m.step = func(name, tag string, do func() error) error {
		if name == step && !done {
			done = true
			what()
		}
		return inner(name, tag, do)
	}
}

// late has a step of a mover fail, and be done all the same: before another step.
func late(m *Mover, step, before string) {
	inner := m.step
	var still func() error
	m.step = func(name, tag string, do func() error) error {
		if name == step && still == nil {
			still = do
			return errKilled
		}
		if name == before && still != nil {
			_ = still()
			still = func() error { return nil }
		}
		return inner(name, tag, do)
	}
}

// old is a move that was held up while another call moved the tag, and a new value
// was written.
func old(tf *testFleet, m *Mover, tag string) (*item, []dumped, error) {
	it := &item{tag: tag, trip: trip{from: 0, to: 1, run: "OLD"}}
	it.claimed = it.claimText(0)
	values, err := m.dump(tf.t.Context(), it, []string{"{" + tag + "}:1"})
	if err != nil {
		return nil, nil, err
	}
	if _, err := m.Move(tf.t.Context(), 1, tag); err != nil {
		return nil, nil, err
	}
	return it, values, set(tf.t.Context(), tf.open().Client(), "{"+tag+"}:1", "new")
}

// isNew returns an error unless a key of the tag has the last value that was written.
func isNew(tf *testFleet, tag string) error {
	got, err := get(tf.t.Context(), tf.open().Client(), "{"+tag+"}:1")
	if err != nil || got != "new" {
		return fmt.Errorf("the key has %q, %w", got, err)
	}
	return nil
}

// oneHome returns an error if more than one partition says that it has the tag, or
// none, or if another one still has its keys, or writers have to wait. A copy that is not
// finished is behind a claim.
func oneHome(tf *testFleet, tag string) error {
	homes := 0
	for id, text := range tf.records(tag) {
		r, err := parseRecord(text)
		switch {
		case text != "" && err != nil:
			return err
		case text != "" && r.Home == id:
			homes++
		case isClaim(r, id):
		case slices.ContainsFunc(tf.keys(id), func(key string) bool { return fleet.Tag(key) == tag }):
			return fmt.Errorf("partition %d has keys of it, and its record is %q", id, text)
		}
		if r.Mark == members.Moving {
			return fmt.Errorf("writers wait: %q", tf.records(tag))
		}
	}
	if homes != 1 {
		return fmt.Errorf("the tag has %d homes: %q", homes, tf.records(tag))
	}
	return nil
}

// isClaim reports whether a record in a partition says that the tag is on its way there.
func isClaim(r record, partition int) bool {
	to, _, ok := r.to()
	return ok && to == partition && r.Home != partition
}

// replaced has the map say that a partition got another master, until a mover knows.
func (tf *testFleet) replaced(m *Mover, partition int) {
	tf.t.Helper()
	before := m.epoch(partition)
	current, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	next := current.Clone()
	next.Epoch++
	next.Partitions[partition].Epoch++
	must(tf.t, tf.dir.Change(tf.t.Context(), current.Epoch, next))
	redistest.Eventually(tf.t, "the map has come", func() bool { return m.epoch(partition) != before })
}

// refused returns an error unless a call was.
func refused(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("the call returned %v, want %w", err, want)
	}
	return nil
}

// elsewhere plays a move to partition 1 whose caller goes, and one to another partition. It
// compares the records.
func elsewhere(to int, want ...string) func(*testFleet, *Mover, string) error {
	return func(tf *testFleet, m *Mover, tag string) error {
		ctx, cancel := context.WithCancel(tf.t.Context())
		defer cancel()
		at(m, "restore", cancel)
		_, err := m.Move(ctx, 1, tag)
		if err := refused(err, context.Canceled); err != nil {
			return err
		}
		_, err = m.Move(tf.t.Context(), to, tag)
		if records := tf.records(tag); err == nil && !slices.Equal(records, want) {
			err = fmt.Errorf("the records are %q, want %q", records, want)
		}
		return errors.Join(err, oneHome(tf, tag))
	}
}

var histories = []history{
	{"a chunk comes late", func(tf *testFleet, m *Mover, tag string) error {
		it, values, err := old(tf, m, tag)
		if err != nil {
			return err
		}
		return errors.Join(refused(m.restore(tf.t.Context(), it, values), ErrTaken), isNew(tf, tag))
	}},
	{"a deletion comes late", func(tf *testFleet, m *Mover, tag string) error {
		it, _, err := old(tf, m, tag)
		if err != nil {
			return err
		}
		return errors.Join(refused(m.clear(tf.t.Context(), "sweep", 1, tag, it.claimed, []string{"{" + tag + "}:1"}), ErrTaken), isNew(tf, tag))
	}},
	{"a chunk comes twice", func(tf *testFleet, m *Mover, tag string) error {
		inner := m.step
		m.step = func(name, tag string, do func() error) error {
			return inner(name, tag, func() error {
				err := do()
				if name == "restore" && err == nil {
					err = do()
				}
				return err
			})
		}
		_, err := m.Move(tf.t.Context(), 1, tag)
		return err
	}},
	{"a master lacks a chunk", func(tf *testFleet, m *Mover, tag string) error {
		// The new master has neither the chunk nor the claim that came with it.
		for i := range 3 {
			if err := set(tf.t.Context(), tf.open().Client(), fmt.Sprintf("{%s}:%d", tag, i), strings.Repeat("x", chunkBytes)); err != nil {
				return err
			}
		}
		before, chunks := "", 0
		inner := m.step
		m.step = func(name, tag string, do func() error) error {
			if name == "restore" {
				switch chunks++; chunks {
				case 1:
					before = tf.records(tag)[1]
				case 2:
					c := tf.direct[1]
					must(tf.t, c.Do(tf.t.Context(), c.B().Del().Key(tf.keys(1)...).Build()).Error())
					must(tf.t, set(tf.t.Context(), c, members.RecordKey(tag), before))
				}
			}
			return inner(name, tag, do)
		}
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, ErrTaken), oneHome(tf, tag))
	}},
	{"another server answers", func(tf *testFleet, m *Mover, tag string) error {
		it, values, err := old(tf, m, tag)
		if err != nil {
			return err
		}
		must(tf.t, set(tf.t.Context(), tf.direct[1], members.RecordKey(tag), it.claimed))
		must(tf.t, set(tf.t.Context(), tf.direct[1], members.IdentityKey, "other/1"))
		return refused(m.restore(tf.t.Context(), it, values), fleet.ErrUnknownServer)
	}},
	{"a key is there already", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "restore", func() { must(tf.t, set(tf.t.Context(), tf.direct[1], "{"+tag+"}:1", "stray")) })
		_, err := m.Move(tf.t.Context(), 1, tag)
		return err
	}},
	{"a key expires", func(tf *testFleet, m *Mover, tag string) error {
		const life = 3_600_000
		c := tf.open().Client()
		if err := c.Do(tf.t.Context(), c.B().Pexpire().Key("{"+tag+"}:1").Milliseconds(life).Build()).Error(); err != nil {
			return err
		}
		if _, err := m.Move(tf.t.Context(), 1, tag); err != nil {
			return err
		}
		left, err := tf.direct[1].Do(tf.t.Context(), c.B().Pttl().Key("{"+tag+"}:1").Build()).AsInt64()
		if err != nil || left > life || left < life-60_000 {
			return fmt.Errorf("it lives for %d ms more, %w", left, err)
		}
		return nil
	}},
	{"a stray key", func(tf *testFleet, m *Mover, tag string) error {
		must(tf.t, set(tf.t.Context(), tf.direct[1], "{"+tag+"}:stray", "of long ago"))
		if _, err := m.Move(tf.t.Context(), 1, tag); err != nil {
			return err
		}
		if keys := tf.keys(1); len(keys) != 3 {
			return fmt.Errorf("the tag has %v", keys)
		}
		return nil
	}},
	{"the arrival comes late", func(tf *testFleet, m *Mover, tag string) error {
		late(m, "arrive", "thaw") // just before writers go on
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, errKilled), oneHome(tf, tag))
	}},
	{"the arrival of a killed call comes late", func(tf *testFleet, m *Mover, tag string) error {
		k := &killer{}
		k.fails = func(int) bool { return slices.Contains(k.steps, "arrive") }
		_, err := interrupt(tf.mover(Config{}), k.before).Move(tf.t.Context(), 1, tag)
		if err := refused(err, errKilled); err != nil {
			return err
		}
		claim := tf.records(tag)[1]
		r, err := parseRecord(claim)
		if err != nil {
			return err
		}
		_, run, _ := r.to()
		if _, err := m.Move(tf.t.Context(), 2, tag); err != nil {
			return err
		}
		_, _, err = m.eval(tf.t.Context(), 1, 0, members.Scripts.Script("exchange"), tag, claim, trip{0, 1, run}.arrived())
		return errors.Join(err, oneHome(tf, tag))
	}},
	{"the freeze comes late", func(tf *testFleet, m *Mover, tag string) error {
		var freeze func() error
		inner := m.step
		m.step = func(name, tag string, do func() error) error {
			if name == "freeze" && freeze == nil {
				freeze = do
				return errKilled
			}
			return inner(name, tag, do)
		}
		_, err := m.Move(tf.t.Context(), 1, tag)
		_ = freeze() // when writers go on
		return errors.Join(refused(err, errKilled), oneHome(tf, tag))
	}},
	{"the old one got another master", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure copy", func() { tf.replaced(m, 0) })
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, fleet.ErrUnavailable), oneHome(tf, tag))
	}},
	{"the new one got another master while it was swept", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "scan", func() { tf.replaced(m, 1) })
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, fleet.ErrUnavailable), oneHome(tf, tag))
	}},
	{"the old one does not know that writers wait", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure copy", func() { must(tf.t, set(tf.t.Context(), tf.direct[0], members.RecordKey(tag), "0")) })
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, ErrTaken), oneHome(tf, tag))
	}},
	{"the tag is in two partitions", func(tf *testFleet, m *Mover, tag string) error {
		must(tf.t, set(tf.t.Context(), tf.direct[1], members.RecordKey(tag), "1"))
		must(tf.t, set(tf.t.Context(), tf.direct[1], "{"+tag+"}:1", "another life"))
		_, err := m.Move(tf.t.Context(), 1, tag)
		if got, _ := get(tf.t.Context(), tf.direct[1], "{"+tag+"}:1"); got != "another life" {
			return errors.New("what was there was replaced")
		}
		return refused(err, ErrTaken)
	}},
	{"the tag comes back before it is found directly", func(tf *testFleet, m *Mover, _ string) error {
		tag := tf.place(0, 2, "sent on")
		other := impatient(tf.mover(Config{}))
		at(m, "shorten", func() {
			for _, to := range []int{0, 2} {
				_, err := other.Move(tf.t.Context(), to, tag)
				must(tf.t, err)
			}
		})
		_, err := m.Move(tf.t.Context(), 1, tag)
		l, lost := m.f.Locate(tf.t.Context(), tag)
		if lost == nil && l.Partition != 2 {
			lost = fmt.Errorf("it is found in %d", l.Partition)
		}
		return errors.Join(err, lost, oneHome(tf, tag))
	}},
	{"one of several tags is kept", func(tf *testFleet, m *Mover, tag string) error {
		m.cfg.Batch = 1
		next := tf.place(0, 0, "z")
		at(m, "restore", func() { must(tf.t, set(tf.t.Context(), tf.direct[1], members.RecordKey(tag), "0")) })
		frozen, waits := 0, false
		inner := m.step
		m.step = func(name, of string, do func() error) error {
			if name == "freeze" {
				if frozen++; frozen == 2 {
					waits = strings.Contains(tf.records(tag)[0], "!")
				}
			}
			return inner(name, of, do)
		}
		_, err := m.Move(tf.t.Context(), 1, tag, next)
		if waits {
			return errors.New("its writers wait until all others are moved")
		}
		return refused(err, ErrTaken)
	}},
	{"the new place cannot be cleared", func(tf *testFleet, m *Mover, tag string) error {
		inner := m.step
		m.step = func(name, tag string, do func() error) error {
			if name == "restore" || name == "sweep" {
				return errKilled
			}
			return inner(name, tag, do)
		}
		_, err := m.Move(tf.t.Context(), 1, tag)
		return errors.Join(refused(err, errKilled), oneHome(tf, tag))
	}},
	{"the caller goes", func(tf *testFleet, m *Mover, tag string) error {
		ctx, cancel := context.WithCancel(tf.t.Context())
		defer cancel()
		at(m, "restore", cancel)
		_, err := m.Move(ctx, 1, tag)
		if err := errors.Join(refused(err, context.Canceled), oneHome(tf, tag)); err != nil {
			return err
		}
		_, err = m.Move(tf.t.Context(), 1, tag)
		if records := tf.records(tag); err == nil && (records[0] != "1" || records[1] != "1") {
			err = fmt.Errorf("the records are %q", records)
		}
		return errors.Join(err, oneHome(tf, tag))
	}},
	{"the new one has the tag by an older move", func(tf *testFleet, m *Mover, tag string) error {
		must(tf.t, set(tf.t.Context(), tf.direct[0], "{"+tag+"}:1", "new"))
		must(tf.t, set(tf.t.Context(), tf.direct[0], members.RecordKey(tag), trip{0, 1, "NEW"}.moving()))
		must(tf.t, set(tf.t.Context(), tf.direct[1], members.RecordKey(tag), trip{0, 1, "OLD"}.arrived()))
		_, err := m.Move(tf.t.Context(), 2, tag)
		return errors.Join(err, isNew(tf, tag))
	}},
	{"the old one has begun another move", func(tf *testFleet, m *Mover, tag string) error {
		must(tf.t, set(tf.t.Context(), tf.direct[0], members.RecordKey(tag), trip{0, 1, "NEW"}.moving()))
		return refused(m.flip(tf.t.Context(), &item{tag: tag, trip: trip{0, 1, "OLD"}}), ErrTaken)
	}},
	{"a tag that was on its way goes elsewhere", elsewhere(2, "2", "0", "2")},
	{"a tag that was on its way is to stay", elsewhere(0, "0", "0", "")},
}

// replicated are histories that need replicas, of which one is behind.
var replicated = []history{
	{"a replica does not know that writers wait", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure freeze", tf.copies[0].Pause)
		copied := false
		at(m, "dump", func() { copied = true })
		_, err := m.Move(tf.t.Context(), 1, tag)
		tf.copies[0].Resume()
		if copied {
			return errors.New("the tag was copied")
		}
		return errors.Join(refused(err, fleet.ErrUnavailable), oneHome(tf, tag))
	}},
	{"a replica lacks what was copied", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure copy", tf.copies[1].Pause)
		arrived := false
		at(m, "arrive", func() { arrived = true })
		_, err := m.Move(tf.t.Context(), 1, tag)
		tf.copies[1].Resume()
		if arrived {
			return errors.New("the tag arrived")
		}
		return refused(err, fleet.ErrUnavailable)
	}},
	{"a replica does not know that the tag has arrived", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure arrival", tf.copies[1].Pause)
		_, err := m.Move(tf.t.Context(), 1, tag)
		tf.copies[1].Resume()
		if r, err := parseRecord(tf.records(tag)[0]); err != nil || r.Home != 0 {
			return fmt.Errorf("others are sent there: %q, %w", tf.records(tag), err)
		}
		return refused(err, fleet.ErrUnavailable)
	}},
	{"a replica does not know where the tag went", func(tf *testFleet, m *Mover, tag string) error {
		at(m, "secure flip", tf.copies[0].Pause)
		_, err := m.Move(tf.t.Context(), 1, tag)
		tf.copies[0].Resume()
		if len(tf.keys(0)) == 0 {
			return errors.New("its keys were deleted")
		}
		return refused(err, fleet.ErrUnavailable)
	}},
}

// protections keep the histories from failing. Each is taken out of a script, or is a step
// that is left out.
var protections = []struct {
	name, old, replacement string
	leaveOut               string
	histories              []string // those that must catch it
}{
	{name: "restore compares the claim", old: "if found ~= ARGV[4] then", replacement: "if false then",
		histories: []string{"a chunk comes late", "a master lacks a chunk"}},
	{name: "clear compares the record", old: "if found ~= ARGV[4] then", replacement: "if false then", histories: []string{"a deletion comes late"}},
	{name: "a repeat is known", old: "if found == ARGV[5] then", replacement: "if false then", histories: []string{"a chunk comes twice"}},
	{name: "only members are written to", old: "if present ~= ARGV[1] .. '/' .. ARGV[2] then", replacement: "if false then",
		histories: []string{"another server answers"}},
	{name: "what is there is replaced", old: "'REPLACE', ", replacement: "", histories: []string{"a key is there already"}},
	{name: "times are those of the clock", old: ", 'ABSTTL'", replacement: "", histories: []string{"a key expires"}},
	{name: "the new place is swept", leaveOut: "sweep", histories: []string{"a stray key"}},
	{name: "a late arrival is held", leaveOut: "hold",
		histories: []string{"the arrival comes late", "the arrival of a killed call comes late"}},
	{name: "what was read is verified", leaveOut: "verify",
		histories: []string{"the old one got another master", "the old one does not know that writers wait"}},
	{name: "after a failure writers go on", leaveOut: "thaw",
		histories: []string{"the new place cannot be cleared", "the freeze comes late", "the caller goes"}},
	{name: "dropped: the claim", leaveOut: "unclaim", histories: []string{"a tag that was on its way goes elsewhere", "a tag that was on its way is to stay"}},
	{name: "dropped: the mark", leaveOut: "stay", histories: []string{"a tag that was on its way goes elsewhere"}},
	{name: "a replica knows that writers wait", leaveOut: "secure freeze", histories: []string{"a replica does not know that writers wait"}},
	{name: "a replica has what was copied", leaveOut: "secure copy", histories: []string{"a replica lacks what was copied"}},
	{name: "a replica knows that the tag has arrived", leaveOut: "secure arrival", histories: []string{"a replica does not know that the tag has arrived"}},
	{name: "a replica knows where the tag went", leaveOut: "secure flip", histories: []string{"a replica does not know where the tag went"}},
}

// sabotage takes one protection out of a mover.
func sabotage(t *testing.T, m *Mover, old, replacement, leaveOut string) {
	t.Helper()
	if old != "" {
		m.scripts = scripttest.Without(t, library, old, replacement)
	}
	if inner := m.step; leaveOut != "" {
		m.step = func(name, tag string, do func() error) error {
			if name == leaveOut {
				return nil
			}
			return inner(name, tag, do)
		}
	}
}

func play(t *testing.T, name, old, replacement, leaveOut string) error {
	t.Helper()
	named := func(h history) bool { return h.name == name }
	var tf *testFleet
	var h history
	if i := slices.IndexFunc(histories, named); i >= 0 {
		tf, h = startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{}), histories[i]
	} else {
		tf, h = startReplicated(t), replicated[slices.IndexFunc(replicated, named)]
	}
	tag := tf.place(0, 0, "t")
	m := impatient(tf.mover(Config{}))
	sabotage(t, m, old, replacement, leaveOut)
	return h.play(tf, m, tag)
}

// startReplicated starts a fleet of two partitions with a replica each, and a server each
// that copies its master and is no member.
func startReplicated(t *testing.T) *testFleet {
	t.Helper()
	quicker := redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}}
	tf := &testFleet{t: t}
	var made []grow.Partition
	for range 2 {
		master, replica := redistest.Start(t, quicker), redistest.Start(t, quicker)
		tf.masters, tf.copies = append(tf.masters, master), append(tf.copies, replica)
		tf.direct = append(tf.direct, master.Client(t))
		made = append(made, grow.Partition{Master: directory.Member{Addr: master.Addr()}, Replicas: []directory.Member{{Addr: replica.Addr()}}})
	}
	tf.init(quick, made)
	for _, master := range tf.masters {
		stranger := redistest.Start(t, quicker)
		host, port, err := net.SplitHostPort(master.Addr())
		must(t, err)
		c := stranger.Client(t)
		must(t, c.Do(t.Context(), c.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
		redistest.Eventually(t, "a stranger follows", func() bool { return stranger.Info("replication")["master_link_status"] == "up" })
	}
	return tf
}

// TestHistories plays moves beside other calls and faults, in a given order.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(histories, replicated) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, h.name, "", "", ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionIsNeeded takes each protection out and expects the histories to
// notice. TestUsersOfAMovingTag shows that the waits are needed.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := play(t, name, p.old, p.replacement, p.leaveOut); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
