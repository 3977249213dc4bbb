package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/restored"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/doctor"
)

// TestACLOnFleet has the users of a fleet do their work: no command may be
// refused to them, and they may have no permission for a command that no server
// received meanwhile.
func TestACLOnFleet(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	f := newUsersFleet(t)
	f.allow("millrace-replica", f.page.user(t, "millrace-replica")...)
	agent := f.page.user(t, "millrace-agent")
	f.allow("millrace-agent", agent...)
	f.play("millrace-agent", f.operate)
	f.wantUsed(agent, f.servers...)

	more, asks := f.page.user(t, "millrace +mget"), f.page.user(t, "millrace on the DIRECTORY")
	f.allow("millrace", slices.Concat(f.page.user(t, "millrace"), more)...)
	for _, c := range f.admins[len(f.members):] {
		must(t, "ACL SETUSER", c.Do(t.Context(), c.B().AclSetuser().Username("millrace").Rule(asks...).Build()).Error())
	}
	f.play("millrace", f.use)
	f.wantUsed(more, f.members...)
	f.wantUsed(asks, f.directory)
	if refused := f.refused("millrace-replica"); len(refused) > 0 {
		t.Errorf("refused to replicas: %v", refused)
	}

	dir := f.dial(f.option("millrace"))
	m, err := dir.Confirm(t.Context(), 0)
	must(t, "Confirm", err)
	next := m.Clone()
	next.Epoch++
	if err := dir.Change(t.Context(), m.Epoch, next); !retry.Denied(err) {
		t.Errorf("Change by a client = %v, want it refused", err)
	}
}

// usersFleet is a fleet whose servers know users: two partitions with a replica
// each, and a directory.
type usersFleet struct {
	*guarded

	members   []*redistest.Server
	directory *redistest.Server
}

func newUsersFleet(t *testing.T) *usersFleet {
	t.Helper()
	f := &usersFleet{directory: redistest.Durable(t)}
	for range 4 {
		f.members = append(f.members, redistest.Start(t, redistest.Options{TCP: true, Args: []string{
			"--repl-diskless-sync-delay", "0", "--masteruser", "millrace-replica", "--masterauth", aclPassword,
		}}))
	}
	f.guarded = newGuarded(t, append(slices.Clone(f.members), f.directory)...)
	return f
}

// option says how a user connects to the directory.
func (f *usersFleet) option(user string) (option rueidis.ClientOption) {
	option.InitAddress = []string{f.directory.Addr()}
	as(user)(&option)
	return option
}

// play has a user do something.
func (f *usersFleet) play(user string, do func(option rueidis.ClientOption)) {
	f.t.Helper()
	f.everywhere("CONFIG", "RESETSTAT")
	f.everywhere("SCRIPT", "FLUSH")
	do(f.option(user))
	if refused := f.refused(user, dispensable...); len(refused) > 0 {
		f.t.Errorf("refused to %s: %v", user, refused)
	}
}

// wantUsed checks that there is no command in rules that none of some servers was
// given.
func (f *usersFleet) wantUsed(rules []string, servers ...*redistest.Server) {
	f.t.Helper()
	used := used(servers)
	for _, command := range commandsOf(rules) {
		if !slices.Contains(used, f.stat(command)) {
			f.t.Errorf("+%s is not needed", command)
		}
	}
}

// dispensable are commands that clients can do without: they reset a connection when it is
// given back, and the doctor asks for save points and slow commands.
var dispensable = append([]string{"unsubscribe", "punsubscribe", "sunsubscribe", "discard"}, dispensableToDoctor...)

func (f *usersFleet) dial(option rueidis.ClientOption) *directory.Directory {
	f.t.Helper()
	dir, err := directory.Dial(option)
	must(f.t, "directory.Dial", err)
	f.t.Cleanup(dir.Close)
	return dir
}

func (f *usersFleet) open(dir *directory.Directory, option rueidis.ClientOption, replicas int) *fleet.Fleet {
	f.t.Helper()
	opened, err := fleet.Open(f.t.Context(), dir, fleet.Config{Option: option, WaitReplicas: replicas, Logger: quiet})
	must(f.t, "fleet.Open", err)
	f.t.Cleanup(opened.Close)
	return opened
}

var quiet = slog.New(slog.DiscardHandler)

// operate does the work of operators and agents.
func (f *usersFleet) operate(option rueidis.ClientOption) {
	f.t.Helper()
	dir := f.dial(option)
	f.make(dir, option)
	operator := f.open(dir, option, 0)
	_, err := doctor.Examine(f.t.Context(), operator.Client(), doctor.Config{Fleet: operator})
	must(f.t, "doctor", err)
	found, err := check.Run(f.t.Context(), operator, check.Config{All: true})
	must(f.t, "check", err)
	for _, c := range found {
		if c.Code == "refused" || c.Code == "silent" {
			f.t.Errorf("fleet check is not told: %v", c)
		}
	}
	f.snapshot(dir, option)
	f.move(dir, operator)
	f.mark(dir, operator)
	f.replace(dir, option)
	_, err = dir.Events(f.t.Context())
	must(f.t, "Events", err)
	_, err = dir.Snapshots(f.t.Context())
	must(f.t, "Snapshots", err)
}

func (f *usersFleet) make(dir *directory.Directory, option rueidis.ClientOption) {
	f.t.Helper()
	cfg := grow.Config{Option: option, RestartTimeout: -1, Settings: directory.Settings{
		ViewTTL: time.Second, ReplyTimeout: time.Second, PlacementTTL: time.Second,
	}}
	partition := func(i int) []grow.Partition {
		member := func(i int) directory.Member {
			return directory.Member{Addr: f.members[i].Addr(), Node: fmt.Sprint("node", i)}
		}
		return []grow.Partition{{Master: member(2 * i), Replicas: []directory.Member{member(2*i + 1)}}}
	}
	_, err := grow.Init(f.t.Context(), dir, partition(0), cfg)
	must(f.t, "Init", err)
	servers := failover.NewRedis(option)
	defer servers.Close()
	cfg.Agent = failover.New(dir, servers, failover.Config{Logger: quiet}).Help
	_, err = grow.Add(f.t.Context(), dir, partition(1), cfg)
	must(f.t, "Add", err)
}

// snapshot has one taken on a member's disk, and one fetched.
func (f *usersFleet) snapshot(dir *directory.Directory, option rueidis.ClientOption) {
	f.t.Helper()
	for _, archive := range []string{"", f.t.TempDir()} {
		keeper := snapshot.New(dir, snapshot.Config{Archive: archive, Option: option, Logger: quiet})
		for _, err := range keeper.Now(f.t.Context(), 0) {
			must(f.t, "Now", err)
		}
	}
}

// move moves a tag away and back.
func (f *usersFleet) move(dir *directory.Directory, operator *fleet.Fleet) {
	f.t.Helper()
	ctx, c := f.t.Context(), operator.Client()
	must(f.t, "SET", c.Do(ctx, c.B().Set().Key("{moves}:x").Value("1").Build()).Error())
	mover, err := rebalance.New(operator, rebalance.Config{Moves: dir, Logger: quiet})
	must(f.t, "rebalance.New", err)
	for _, to := range []int{0, 1} {
		_, err := mover.Move(ctx, to, "moves")
		must(f.t, "Move", err)
	}
	must(f.t, "UNLINK", c.Do(ctx, c.B().Unlink().Key("{moves}:x").Build()).Error())
	_, err = operator.Forget(ctx, "moves")
	must(f.t, "Forget", err)
}

// mark has an agent mark the tags of a partition that was restored.
func (f *usersFleet) mark(dir *directory.Directory, operator *fleet.Fleet) {
	f.t.Helper()
	m, err := dir.Confirm(f.t.Context(), 0)
	must(f.t, "Confirm", err)
	next := m.Clone()
	next.Epoch++
	next.Settings.RestoredIck = "rebuild"
	must(f.t, "Change", dir.Change(f.t.Context(), m.Epoch, next))
	c := operator.Client()
	must(f.t, "SET", c.Do(f.t.Context(), c.B().Set().Key("{restored}").Value("1").Build()).Error())
	for _, c := range []rueidis.Client{f.admins[0], f.admins[2]} { // the masters
		must(f.t, "HSET", c.Do(f.t.Context(), c.B().Hset().Key("mr:fleet:restored").FieldValue().FieldValue("epoch", "1").Build()).Error())
	}
	mover, err := rebalance.New(operator, rebalance.Config{Moves: dir, Logger: quiet})
	must(f.t, "rebalance.New", err)
	job := restored.New(operator, mover, restored.Config{Logger: quiet, Mark: func(ctx context.Context, name string, tags []string) error {
		k, err := ick.New(c, name, ick.Config{Logger: quiet})
		if err == nil {
			_, err = k.AddNow(ctx, tags...)
		}
		return err
	}})
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- job.Run(ctx) }()
	redistest.Eventually(f.t, "all is marked", func() bool {
		events, err := dir.Events(ctx)
		marked := slices.DeleteFunc(events, func(e directory.Event) bool { return !strings.Contains(e.What, "marked in the Ick rebuild") })
		return err == nil && len(marked) == 2
	})
	stop()
	<-ended
}

// replace has one master replaced by hand, and one by an agent.
func (f *usersFleet) replace(dir *directory.Directory, option rueidis.ClientOption) {
	f.t.Helper()
	servers := failover.NewRedis(option)
	defer servers.Close()
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	agent := failover.New(dir, servers, failover.Config{Interval: 100 * time.Millisecond, Logger: quiet})
	go func() { ended <- agent.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	must(f.t, "Switch", failover.Switch(ctx, dir, servers, 0, "", quiet, nil))
	f.members[2].Pause()
	redistest.Eventually(f.t, "the other one is the master", func() bool {
		m, err := dir.Confirm(ctx, 0)
		return err == nil && m.Partitions[1].Master.Addr == f.members[3].Addr() && !m.Partitions[1].ReadOnly
	})
	f.members[2].Resume()
	_, port, err := net.SplitHostPort(f.members[2].Addr())
	must(f.t, "its address", err)
	redistest.Eventually(f.t, "it is back as a replica", func() bool { // it is not asked itself: the agent cuts its connections
		return strings.Contains(f.members[3].Info("replication")["slave0"], "port="+port+",state=online")
	})
}

// use does the work of programs.
func (f *usersFleet) use(option rueidis.ClientOption) {
	f.t.Helper()
	dir := f.dial(option)
	user := f.open(dir, option, 1)
	for _, s := range shortTour {
		w := &walker{Context: f.t.Context(), client: user.Client(), name: redistest.Name(f.t)}
		for _, kind := range s.of {
			f.allow("millrace", f.page.keys(f.t, kind, w.name)...) // on the directory, too, where it has none
		}
		w.admin = w
		must(f.t, s.name, w.visit(s))
	}
	ctx, c := f.t.Context(), user.Client()
	must(f.t, "SET", c.Do(ctx, c.B().Set().Key("mr:{gone}").Value("1").Build()).Error())
	must(f.t, "DEL", c.Do(ctx, c.B().Del().Key("mr:{gone}").Build()).Error())
	_, err := user.Forget(ctx, "gone")
	must(f.t, "Forget", err)
	_, err = user.Status(ctx)
	must(f.t, "Show", err)

	// Another process's directory reads the map from any server, and receives an
	// agent's changes of it.
	other, agents := f.dial(option), f.dial(f.option("millrace-agent"))
	_, err = other.Load(ctx)
	must(f.t, "Load", err)
	m, err := other.Confirm(ctx, 0)
	must(f.t, "Confirm", err)
	next := m.Clone()
	next.Epoch++
	must(f.t, "Change", agents.Change(ctx, m.Epoch, next))
	_, err = other.Confirm(ctx, m.Epoch)
	must(f.t, "Confirm", err)
}
