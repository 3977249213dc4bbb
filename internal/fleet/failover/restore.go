package failover

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Restore has a partition go on with the data of a member that a person has chosen, whatever it
// lacks. The choice is in the map until an election has obeyed it, so an agent, or this call, can
// die in between. Help is that of [Switch].
func Restore(ctx context.Context, dir *directory.Directory, servers Servers, partition int, addr string, logger *slog.Logger, help Help) error {
	a := New(dir, servers, Config{Logger: logger})
	if help == nil {
		help = a.Help
	}
	m, err := a.confirm(ctx)
	if err != nil {
		return err
	}
	if partition < 0 || partition >= len(m.Partitions) {
		return ErrNotSwitched.Errorf("there is no partition %d", partition)
	}
	p := m.Partitions[partition]
	if !slices.ContainsFunc(voters(p), func(m directory.Member) bool { return m.Addr == addr }) {
		return ErrNotSwitched.Errorf("%s is not a member of partition %d", addr, partition)
	}
	m, err = a.change(ctx, p, func(p *directory.Partition) {
		p.ReadOnly, p.Prefer, p.Restore = true, "", addr
		p.Epoch++
	})
	if err != nil {
		return err
	}
	a.note(ctx, m, partition, "a person has chosen the data of "+addr)
	defer help(ctx)()
	got, err := a.settled(ctx, partition)
	if err == nil && got != addr {
		err = ErrNotSwitched.Errorf("%s is the master of partition %d", got, partition)
	}
	return err
}

// Age is how old the data of one member is.
type Age struct {
	Addr   string `json:"addr"`
	Beat   int64  `json:"beat"`   // the count of its beat, 0 for none
	Behind int64  `json:"behind"` // beats behind the newest that is known, about as many seconds
	Text   string `json:"text"`   // the same for people
	Known  bool   `json:"known"`  // whether it said what it has
}

// Ages asks all members of a partition how old their data is. It is measured against the newest
// beat that they or the directory know.
func Ages(ctx context.Context, option rueidis.ClientOption, dir *directory.Directory, fleet string, p directory.Partition) []Age {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	members.Small(&option)
	pool := members.New(option, time.Second)
	defer pool.Close()
	all := voters(p)
	reports := make([]chan members.Report, len(all))
	for i, m := range all {
		reports[i] = make(chan members.Report, 1)
		go func() {
			report, _ := members.Ask(ctx, pool, m.Addr, members.ExamineFenced) // without an answer it has no identity
			reports[i] <- report
		}()
	}
	known, _ := dir.Beats(ctx) // without it the members' own count
	newest := known[p.ID]
	got := make([]members.Report, len(all))
	for i := range all {
		if got[i] = <-reports[i]; got[i].Identity == members.Identity(fleet, p.ID) {
			newest = newest.Newer(got[i].Beat)
		}
	}
	ages := make([]Age, len(all))
	for i, m := range all {
		ages[i] = Age{Addr: m.Addr, Text: "does not answer, or has no data of the partition"}
		if !whole(got[i], fleet, p.ID) {
			continue
		}
		beat, behind := got[i].Beat, got[i].Beat.Behind(newest)
		ages[i].Beat, ages[i].Behind, ages[i].Known, ages[i].Text = beat.Count, behind, true, members.Age(behind)+", behind the newest that is known"
		switch {
		case newest == members.Beat{}:
			ages[i].Text = "of unknown age: no agent has written beats"
		case beat == newest:
			ages[i].Text = "the newest that is known"
		}
	}
	return ages
}
