package grow

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/ring"
)

// ErrExists means that the directory already has a fleet. Nothing was changed.
var ErrExists = &millrace.Error{
	Code:    "exists",
	Message: "there is a fleet in this directory already",
	Hint:    "Show it with millrace fleet show, and add partitions with millrace fleet add.",
}

// Config says how to create or extend a fleet. The zero value works.
type Config struct {
	// Option has the user, the password, the TLS settings and the timeouts for members.
	// Defaults to none of them.
	Option rueidis.ClientOption

	// Settings are those of the fleet. Only Init takes them. Defaults to those of
	// directory.Settings.
	Settings directory.Settings

	// RestartTimeout is how long a server may take to come back. Each is shut down once
	// while it is empty, to check that its supervisor restarts it with its boot fence; one
	// that comes back without is ErrUnfit. Defaults to 30 seconds. Below 0 no server is
	// restarted, and boot fences are not checked.
	RestartTimeout time.Duration

	// Agent runs an agent until end is called: Add announces partitions, and agents open
	// them. Defaults to none: then one must run elsewhere.
	Agent func(ctx context.Context) (end func())

	// Progress receives each step, in a few words, from one goroutine. Defaults to none.
	Progress func(step string)
}

// Report passes on a step.
func (c *Config) Report(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Init creates a fleet of empty servers, and returns its map. The same call again completes
// one that was cut off.
func Init(ctx context.Context, dir *directory.Directory, partitions []Partition, cfg Config) (*directory.Map, error) {
	weights, err := checkNew(partitions, &directory.Map{})
	if err != nil {
		return nil, err
	}
	if err := cfg.Settings.Check(); err != nil {
		return nil, err
	}
	switch made, err := dir.Confirm(ctx, 0); {
	case err == nil && untouched(made.Partitions, describe(partitions, 0, 0, directory.Open)):
		return made, nil
	case err == nil:
		return nil, ErrExists
	case !errors.Is(err, directory.ErrNoFleet):
		return nil, directory.Unreachable(ctx, err)
	}
	if err := dir.Verify(ctx); err != nil {
		return nil, directory.Unreachable(ctx, err)
	}
	points, err := ring.New(weights...)
	if err != nil {
		return nil, millrace.ErrBadArgument.Wrap(err)
	}
	m := &directory.Map{
		Version: directory.Version, Fleet: nameOf(partitions), Epoch: 1, Floor: 1, Settings: cfg.Settings,
		Points: points.Points(), Partitions: describe(partitions, 0, 0, directory.Open),
	}
	if err := cfg.prepare(ctx, m, 0); err != nil {
		return nil, err
	}
	cfg.Report("publishing the map")
	if err := dir.Change(ctx, 0, m); err != nil {
		return nil, err
	}
	return m, nil
}

// untouched reports whether partitions are those that were described, and nothing has
// happened to them since.
func untouched(made, described []directory.Partition) bool {
	if len(made) != len(described) {
		return false
	}
	for i := range made {
		described[i].History, described[i].Master.Run, described[i].Master.Boot = made[i].History, made[i].Master.Run, made[i].Master.Boot
		for j := range min(len(made[i].Replicas), len(described[i].Replicas)) {
			described[i].Replicas[j].Run, described[i].Replicas[j].Boot = made[i].Replicas[j].Run, made[i].Replicas[j].Boot
		}
	}
	return reflect.DeepEqual(made, described)
}

// nameOf returns the name of a fleet that begins with these partitions: always the same, so
// that a repeated call recognizes its members.
func nameOf(partitions []Partition) string {
	hash := sha256.New()
	for _, n := range partitions {
		fmt.Fprintln(hash, n.members())
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(hash.Sum(nil)[:15]))
}

// Add adds partitions to a fleet that is in use, and returns its new map. No data moves. It
// takes a few seconds: new tags are placed on the new partitions when all clients look for
// tags there. If it is cut off when it has announced them, agents go on.
func Add(ctx context.Context, dir *directory.Directory, partitions []Partition, cfg Config) (*directory.Map, error) {
	m, err := dir.Confirm(ctx, 0)
	if err != nil {
		return nil, directory.Unreachable(ctx, err)
	}
	begun, err := begun(m, partitions)
	if err != nil {
		return nil, err
	}
	if !begun {
		if m, err = cfg.Announce(ctx, dir, m, partitions); err != nil {
			return nil, err
		}
	}
	cfg.Report("waiting %v until all clients look for tags on the new partitions", m.Grace())
	return cfg.wait(ctx, dir, partitions)
}

// begun reports whether these partitions are being added already. Other unfinished
// additions must be completed first.
func begun(m *directory.Map, partitions []Partition) (bool, error) {
	var unfinished []string
	for _, p := range m.Partitions {
		if p.Phase == directory.LookUp {
			unfinished = append(unfinished, p.Master.Addr)
		}
	}
	var asked []string
	for _, n := range partitions {
		asked = append(asked, n.Master.Addr)
	}
	if len(unfinished) == 0 || slices.Equal(asked, unfinished) {
		return len(unfinished) > 0, nil
	}
	return false, millrace.ErrBadArgument.Errorf("the adding of partitions at %v is not finished", unfinished).
		WithHint("Repeat the command that began it, for the same servers.")
}

// Announce publishes the partitions, for look-ups only.
func (c *Config) Announce(ctx context.Context, dir *directory.Directory, m *directory.Map, partitions []Partition) (*directory.Map, error) {
	weights, err := checkNew(partitions, m)
	if err != nil {
		return nil, err
	}
	present, err := m.Ring()
	if err != nil {
		return nil, err
	}
	grown, err := present.Add(weights...)
	if err != nil {
		return nil, millrace.ErrBadArgument.Wrap(err)
	}
	first, generation := len(m.Partitions), 0
	for _, p := range grown.Points() {
		generation = max(generation, p.Generation)
	}
	with := m.Clone()
	with.Partitions = append(with.Partitions, describe(partitions, first, generation, directory.LookUp)...)
	if err := c.prepare(ctx, with, first); err != nil {
		return nil, err
	}
	added := with.Partitions[first:]
	return directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		if len(next.Partitions) != first || next.Fleet != m.Fleet {
			return false, directory.ErrConflict.Errorf("partitions were added meanwhile")
		}
		if _, err := checkNew(partitions, next); err != nil {
			return false, err
		}
		next.Points, next.Partitions = grown.Points(), append(next.Partitions, added...)
		for i := range added {
			next.Partitions[first+i].Epoch = next.Epoch // of the map that names its master
		}
		return true, nil
	})
}

// askEvery is how often Add reads the answers of agents.
const askEvery = time.Second

// wait returns the map when partitions that were announced take tags.
func (c *Config) wait(ctx context.Context, dir *directory.Directory, partitions []Partition) (*directory.Map, error) {
	if c.Agent != nil {
		defer c.Agent(ctx)()
	}
	asked, told := time.Now(), ""
	for {
		m, err := dir.Confirm(ctx, 0)
		switch {
		case err != nil: // the agent's log says so, and it may answer again
		case !named(m, partitions):
			return nil, ErrBehind.Errorf("the directory had lost its newest maps, and the partitions are not in the map any more").
				WithHint("Look at millrace fleet show, and repeat the command.")
		case !m.Adding():
			c.Report("the new partitions take tags")
			return m, nil
		case time.Since(asked) > askEvery:
			asked = time.Now()
			events, _ := dir.Events(ctx)
			i := slices.IndexFunc(events, func(e directory.Event) bool { return e.Partition == -1 && e.Epoch >= m.Epoch })
			if i < 0 || events[i].What == told {
				break
			}
			if told = events[i].What; strings.HasPrefix(told, directory.Stopped) {
				return nil, ErrBehind.Errorf("%s", told).WithHint("The partitions are in the map. Agents let them take tags when they go on.")
			}
			c.Report("%s", told)
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// named reports whether a map has all partitions that were announced.
func named(m *directory.Map, partitions []Partition) bool {
	return !slices.ContainsFunc(partitions, func(n Partition) bool { return m.Home(n.Master.Addr) < 0 })
}

// ErrBehind means that members have a newer map than the directory, which has lost maps. Its
// message says whether agents have put the newest one in place, or wait for a person.
var ErrBehind = &millrace.Error{Code: "behind"}

// describe returns the partitions as a map has them.
func describe(partitions []Partition, first, generation int, phase directory.Phase) []directory.Partition {
	described := make([]directory.Partition, len(partitions))
	for i, n := range partitions {
		described[i] = directory.Partition{
			ID: first + i, Epoch: 1, Generation: generation, Phase: phase, Master: n.Master, Replicas: slices.Clone(n.Replicas),
		}
	}
	return described
}

// checkNew returns the weights of partitions for the map m, or the first error in them.
func checkNew(partitions []Partition, m *directory.Map) (weights []int, err error) {
	if len(partitions) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("no partitions are given")
	}
	taken := map[string]bool{}
	for i, n := range partitions {
		nodes := map[string]bool{}
		for _, member := range n.members() {
			_, wrong := directory.ParseMember(member.Addr)
			id := m.Home(member.Addr)
			switch {
			case id >= 0:
				return nil, millrace.ErrBadArgument.Errorf("the server at %s is a member of partition %d already", member.Addr, id).
					WithHint("Look at millrace fleet show: an addition that was cut off may have been finished by an agent.")
			case directory.Find(m.Spares, member.Addr) != nil:
				return nil, millrace.ErrBadArgument.Errorf("the server at %s is a spare", member.Addr).WithHint("Take it back first: millrace fleet spare rm " + member.Addr)
			case wrong != nil:
				return nil, millrace.ErrBadArgument.Errorf("partition %d of those given: %s", i, wrong)
			case taken[member.Addr]:
				return nil, millrace.ErrBadArgument.Errorf("the server at %s would be a member twice", member.Addr)
			case member.Node != "" && nodes[member.Node]:
				return nil, millrace.ErrBadArgument.Errorf("partition %d of those given has two members on node %s, and would be lost with it", i, member.Node)
			}
			taken[member.Addr], nodes[member.Node] = true, true
		}
		if n.Weight < 0 {
			return nil, millrace.ErrBadArgument.Errorf("invalid weight %d", n.Weight)
		}
		weights = append(weights, max(1, n.Weight))
	}
	return weights, nil
}
