package check

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// answerTimeout is how long a server has to answer.
const answerTimeout = 2 * time.Second

// facts are the reports of a fleet's servers at one time. Checks compare them.
type facts struct {
	m           *directory.Map
	unconfirmed error // why the map may be old
	status      fleet.Status
	members     []*member // by partition, each master before its replicas
	spares      []*member
	maxAge      time.Duration

	remarks  []directory.Remark
	leader   string
	noLeader error // why it is not known

	ages   snapshot.Ages
	noAges error // why they are not known

	events   []directory.Event
	noEvents error // why they are not known

	tags findings
}

// member is a server, as the map knows it and as it describes itself.
type member struct {
	directory.Member

	partition int
	role      string // master, replica, joining or leaving

	answer
	err error // why there is no answer
}

// answer is a member's report about itself.
type answer struct {
	report   members.Report
	info     info.Fields
	settings map[string]string // nil if the user may not read them
	ahead    time.Duration     // by how much its clock is ahead of this process's
	doubt    time.Duration     // how exact that is
}

// memberSettings are the settings that matter.
var memberSettings = []string{
	"maxmemory", "maxmemory-policy", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "min-replicas-max-lag",
	"repl-backlog-size", "replica-read-only", "client-output-buffer-limit", "masteruser", "timeout",
}

// gather asks all servers at the same time, and then looks tags up.
func gather(ctx context.Context, f *fleet.Fleet, cfg Config) (*facts, error) {
	pool := members.New(directory.OptionOf(f.Client()), answerTimeout)
	defer pool.Close()
	all := &facts{m: directory.MapOf(f.Client()), maxAge: cfg.MaxSnapshotAge}
	dir := directory.Of(f.Client())
	all.confirm(ctx, dir)
	var asking sync.WaitGroup
	bounded := func(call func(ctx context.Context)) {
		asking.Go(func() {
			ctx, cancel := script.Within(ctx, answerTimeout)
			defer cancel()
			call(ctx)
		})
	}
	asking.Go(func() { all.status, _ = f.Status(ctx) }) // fails if ctx ends
	for _, p := range all.m.Partitions {
		for _, m := range membersOf(p) {
			all.members = append(all.members, m)
			bounded(func(ctx context.Context) { m.answer, m.err = members.Ask(ctx, pool, m.Addr, ask) })
		}
	}
	for _, m := range all.m.Spares {
		s := &member{Member: m, partition: Fleetwide, role: "spare"}
		all.spares = append(all.spares, s)
		bounded(func(ctx context.Context) { s.answer, s.err = members.Ask(ctx, pool, s.Addr, ask) })
	}
	bounded(func(ctx context.Context) { all.remarks = dir.Examine(ctx) })
	bounded(func(ctx context.Context) { all.leader, all.noLeader = leaderOf(ctx, dir) })
	bounded(func(ctx context.Context) {
		all.ages, all.noAges = script.Prompt(ctx, func(ctx context.Context) (snapshot.Ages, error) { return snapshot.Read(ctx, dir) })
	})
	bounded(func(ctx context.Context) { all.events, all.noEvents = script.Prompt(ctx, dir.Events) })
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	all.tags = checkTags(ctx, all, pool, cfg)
	return all, context.Cause(ctx)
}

// confirm takes the present map, or the one at hand if the directory does not confirm any.
func (f *facts) confirm(ctx context.Context, dir *directory.Directory) {
	ctx, cancel := script.Within(ctx, answerTimeout)
	defer cancel()
	newer, err := script.Prompt(ctx, func(ctx context.Context) (*directory.Map, error) { return dir.Confirm(ctx, f.m.Epoch) })
	if f.unconfirmed = err; err == nil && newer != nil {
		f.m = newer
	}
}

// leaderOf returns the agent that leads, empty for none. When a leader ends, the next one
// takes a moment.
func leaderOf(ctx context.Context, dir *directory.Directory) (leader string, err error) {
	for range 4 {
		if leader, err = script.Prompt(ctx, dir.Leader); leader != "" || err != nil || !retry.Sleep(ctx, answerTimeout/8) {
			break
		}
	}
	return leader, err
}

// membersOf returns all servers of a partition, the master first.
func membersOf(p directory.Partition) []*member {
	all := []*member{{Member: p.Master, partition: p.ID, role: "master"}}
	for _, replica := range p.Replicas {
		all = append(all, &member{Member: replica, partition: p.ID, role: "replica"})
	}
	if p.Task != nil && p.Task.Add != nil {
		all = append(all, &member{Member: *p.Task.Add, partition: p.ID, role: "joining"})
	}
	if p.Leaving != nil {
		all = append(all, &member{Member: *p.Leaving, partition: p.ID, role: "leaving"})
	}
	return all
}

// ask asks one member.
func ask(ctx context.Context, c rueidis.Client) (a answer, err error) {
	began := time.Now()
	if a.report, a.info, err = members.ExamineAll(ctx, c); err != nil {
		return a, err
	}
	a.doubt = time.Since(began) / 2
	a.ahead = a.report.Clock.Sub(began.Add(a.doubt))
	cmds := make([]rueidis.Completed, len(memberSettings))
	for i, name := range memberSettings {
		cmds[i] = c.B().ConfigGet().Parameter(name).Build()
	}
	settings := map[string]string{}
	for _, reply := range c.DoMulti(ctx, cmds...) {
		values, err := reply.AsStrMap()
		switch {
		case retry.Denied(err):
			return a, nil
		case err != nil:
			return a, err
		}
		maps.Copy(settings, values)
	}
	a.settings = settings
	return a, nil
}

// answered returns the members that answered, and adds a note for each other one.
// Whether that is bad is the matter of the check of members.
func (f *facts) answered(l *findings) (all []*member) {
	for _, m := range f.members {
		if m.err == nil {
			all = append(all, m)
			continue
		}
		l.add(finding.Note, "silent", m.partition, m.Addr, "it does not answer", "Repeat the check when it does: millrace fleet show.")
	}
	return all
}

// master returns the master of a partition.
func (f *facts) master(partition int) *member {
	return f.members[slices.IndexFunc(f.members, func(m *member) bool { return m.partition == partition && m.role == "master" })]
}

// replicas returns the replicas of a partition.
func (f *facts) replicas(partition int) (all []*member) {
	for _, m := range f.members {
		if m.partition == partition && m.role == "replica" {
			all = append(all, m)
		}
	}
	return all
}
