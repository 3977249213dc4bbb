package rebalance

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestDrain empties a partition, and new tags do not come back to it.
func TestDrain(t *testing.T) {
	t.Parallel()
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
	ctx := t.Context()
	var tags []string
	user := tf.open()
	for i := range 40 {
		tag := tf.tagOf(0, fmt.Sprint("t", i, "-"))
		tags = append(tags, tag)
		must(t, set(ctx, user.Client(), "{"+tag+"}", tag))
	}
	must(t, Close(ctx, tf.dir, 0))
	must(t, Close(ctx, tf.dir, 0)) // once is enough
	m := impatient(tf.mover(Config{Batch: 7}))

	half, err := m.Drain(ctx, 0, DrainConfig{Share: 0.5})
	must(t, err)
	if half.Tags < 8 || half.Tags > 32 {
		t.Errorf("half of %d tags are %d", len(tags), half.Tags)
	}
	again, err := m.Drain(ctx, 0, DrainConfig{Share: 0.5})
	must(t, err)
	if again.Tags != 0 {
		t.Errorf("half of the tags once more are %d, want none", again.Tags)
	}
	rest, err := m.Drain(ctx, 0, DrainConfig{})
	must(t, err)
	if half.Tags+rest.Tags != len(tags) || len(tf.keys(0)) != 0 {
		t.Errorf("%d and %d tags were moved of %d, and %v is left", half.Tags, rest.Tags, len(tags), tf.keys(0))
	}
	f := tf.open()
	homes := make([]int, 3)
	for _, tag := range tags {
		l, err := f.Locate(ctx, tag)
		must(t, err)
		homes[l.Partition]++
		tf.wantHome(f, tag, l.Partition)
	}
	if slices.Min(homes[1:]) == 0 {
		t.Errorf("all tags went to one partition: %v", homes)
	}
	fresh := tf.tagOf(0, "fresh")
	must(t, set(ctx, f.Client(), fresh, "x"))
	if l, err := f.Locate(ctx, fresh); err != nil || l.Partition == 0 {
		t.Errorf("a new tag is in partition %d, %v, want another one than that which is closed", l.Partition, err)
	}

	_, err = m.Drain(ctx, 1, DrainConfig{To: []int{2}})
	must(t, err)
	for _, tag := range tags {
		tf.wantHome(f, tag, 2)
	}
}

// TestDrainToOwners: after the fleet has grown, tags of the old partition that belong
// to the new one go there, and a record where they were says so.
func TestDrainToOwners(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, redistest.Options{})
	ctx := t.Context()
	old := tf.open()
	for i := range 20 {
		must(t, set(ctx, old.Client(), fmt.Sprint("t", i), "x"))
	}
	server := redistest.Start(t, redistest.Options{TCP: true})
	tf.masters, tf.direct = append(tf.masters, server), append(tf.direct, server.Client(t))
	servers := failover.NewRedis(slowly)
	defer servers.Close()
	agent := failover.New(tf.dir, servers, failover.Config{Interval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	_, err := grow.Add(ctx, tf.dir, []grow.Partition{{Master: directory.Member{Addr: server.Addr()}}}, grow.Config{Option: slowly, RestartTimeout: -1, Agent: agent.Help})
	must(t, err)
	_, err = tf.mover(Config{}).Drain(ctx, 0, DrainConfig{Share: 0.9})
	must(t, err)
	f := tf.open()
	for i := range 20 {
		tag := fmt.Sprint("t", i)
		home := 0
		if fraction(tag) < 0.9 {
			home = 1
		}
		tf.wantHome(f, tag, home)
		if got, want := tf.records(tag)[0], fmt.Sprint(home); got != want {
			t.Errorf("the record of %s in the old partition is %q, want %q", tag, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{})
	f, ctx := tf.open(), t.Context()
	_, err := New(f, Config{Batch: -1})
	wantError(t, err, millrace.ErrBadArgument)
	m := tf.mover(Config{})
	for _, to := range []int{-1, 2} {
		_, err := m.Move(ctx, to, "a")
		wantError(t, err, millrace.ErrBadArgument)
		_, err = m.resume(ctx, to)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = m.Drain(ctx, to, DrainConfig{})
		wantError(t, err, millrace.ErrBadArgument)
		_, err = m.Drain(ctx, 0, DrainConfig{To: []int{to}})
		wantError(t, err, millrace.ErrBadArgument)
		wantError(t, Close(ctx, tf.dir, to), millrace.ErrBadArgument)
	}
	for _, share := range []float64{-0.1, 1.1} {
		_, err := m.Drain(ctx, 0, DrainConfig{Share: share})
		wantError(t, err, millrace.ErrBadArgument)
	}
	_, err = m.Drain(ctx, 0, DrainConfig{To: []int{0}})
	wantError(t, err, millrace.ErrBadArgument)
	must(t, Close(ctx, tf.dir, 1))
	late := tf.mover(Config{})
	_, err = late.Move(ctx, 1, "a")
	wantError(t, err, millrace.ErrBadArgument)
	_, err = late.Drain(ctx, 0, DrainConfig{})
	wantError(t, err, millrace.ErrBadArgument)
	if report, err := m.Move(ctx, 0); err != nil || report.Tags != 0 {
		t.Errorf("Move of nothing = %+v, %v", report, err)
	}
}

// TestForgottenTag: a tag that is being forgotten is in use again when it is moved.
func TestForgottenTag(t *testing.T) {
	t.Parallel()
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
	m, ctx := impatient(tf.mover(Config{})), t.Context()
	direct, forwarded := tf.place(0, 0, "direct"), tf.place(0, 2, "forwarded")
	mark := func(partition int, tag, home string) {
		must(t, set(ctx, tf.direct[partition], members.RecordKey(tag), home+" -T"))
	}
	mark(0, direct, "0")
	mark(0, forwarded, "2")
	mark(2, forwarded, "2")
	at(m, "restore", func() {
		// A client that forgets it looks for keys where it was, and finds none.
		if outcome, _, err := m.eval(ctx, 0, 0, members.Scripts.Script("exchange"), forwarded, "2 -T", ""); outcome != "other" || err != nil {
			t.Errorf("the record by which the tag is found was removed: %v, %v", outcome, err)
		}
	})
	_, err := m.Move(ctx, 1, direct, forwarded)
	must(t, err)
	for _, tag := range []string{direct, forwarded} {
		tf.wantHome(tf.open(), tag, 1)
	}
}
