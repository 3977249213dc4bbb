package grow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/ring"
)

// ErrExists means that the directory already has a fleet. Nothing was changed.
var ErrExists = &millrace.Error{
	Code:    "exists",
	Message: "there is a fleet in this directory already",
	Hint:    "Show it with millrace fleet show, and add partitions with millrace fleet add.",
}

// Partition lists the servers of a new partition.
type Partition struct {
	Master   directory.Member
	Replicas []directory.Member

	// Weight is the number of its points on the ring: weight 2 takes twice as many tags.
	// Defaults to 1.
	Weight int
}

func (n *Partition) members() []directory.Member {
	return append([]directory.Member{n.Master}, n.Replicas...)
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

	// Progress receives each step, in a few words, from one goroutine. Defaults to none.
	Progress func(step string)
}

func (c *Config) report(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Init creates a fleet of empty servers, and returns its map. The same call again completes
// one that was cut off.
func Init(ctx context.Context, dir *directory.Directory, partitions []Partition, cfg Config) (*directory.Map, error) {
	weights, err := checkNew(partitions, nil)
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
	cfg.report("publishing the map")
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
// tags there. The same call again completes one that was cut off.
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
	grace := m.Grace()
	cfg.report("waiting %v until all clients look for tags on the new partitions", grace)
	if !retry.Sleep(ctx, grace) {
		return nil, context.Cause(ctx)
	}
	return cfg.Open(ctx, dir)
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
	next := m.Next()
	next.Points = grown.Points()
	next.Partitions = append(next.Partitions, describe(partitions, len(m.Partitions), grown.Generations()-1, directory.LookUp)...)
	for i := range partitions {
		next.Partitions[len(m.Partitions)+i].Epoch = next.Epoch // of the map that names its master
	}
	if err := c.prepare(ctx, next, len(m.Partitions)); err != nil {
		return nil, err
	}
	return next, dir.Change(ctx, m.Epoch, next)
}

// Open lets the partitions that were added take new tags.
//
// Between two maps a tag has two owners, and must not be placed on both. So the floor is
// first raised on all masters to the epoch of the next map: from then on no client places a
// tag by the present one. The directory has the floor before the masters do, for agents that
// replace a master.
//
// Before that all masters have a copy of the map that names the new partitions: should the
// directory be lost, each copy names all partitions that have tags.
func (c *Config) Open(ctx context.Context, dir *directory.Directory) (*directory.Map, error) {
	for {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return nil, err
		}
		// While the floor is raised no tag can be placed, so the connections are opened before.
		masters, err := c.masters(m)
		if err != nil {
			return nil, err
		}
		announced := m.Next()
		announced.Floor = announced.Epoch + 1
		opened := announced.Next()
		for i := range opened.Partitions {
			if p := &opened.Partitions[i]; p.Phase == directory.LookUp {
				p.Phase = directory.Open
			}
		}
		c.report("stopping the placing of tags by the old map")
		if err = c.keep(ctx, dir, masters, m); err == nil {
			err = dir.Change(ctx, m.Epoch, announced)
		}
		if err == nil {
			if err = raise(ctx, masters, announced); err == nil {
				err = dir.Change(ctx, announced.Epoch, opened)
			}
		}
		for _, s := range masters {
			s.client.Close()
		}
		if err == nil {
			c.report("the new partitions take tags")
			return opened, nil
		}
		if !errors.Is(err, directory.ErrConflict) {
			return nil, err
		}
		// Another change of the map took the epoch of the floor: once more, above it.
	}
}

// masters returns the masters of all partitions, the new ones included.
func (c *Config) masters(m *directory.Map) ([]*server, error) {
	masters := make([]*server, len(m.Partitions))
	for i, p := range m.Partitions {
		s, err := c.connect(p.Master)
		if err != nil {
			for _, s := range masters[:i] {
				s.client.Close()
			}
			return nil, err
		}
		masters[i] = s
	}
	return masters, nil
}

// ErrBehind means that members have a newer map than the directory, which has lost maps. By an
// old map a partition would be added in the place of another one.
var ErrBehind = &millrace.Error{
	Code: "behind",
	Hint: "Run an agent: millrace fleet agent. It puts the newest map into the directory; look at millrace fleet show then, and repeat the command.",
}

// keep stores a copy of the map on all of them.
func (c *Config) keep(ctx context.Context, dir *directory.Directory, masters []*server, m *directory.Map) error {
	text, err := m.Pack()
	if err != nil {
		return err
	}
	kept := make([]int64, len(masters)) // the epochs of the copies that are there
	err = all(masters, func(i int, s *server) error {
		return retry.Policy{}.Do(ctx, func(int) (err error) {
			kept[i], err = members.Copy{Epoch: m.Epoch, Text: text}.Keep(ctx, s.client, m.Fleet, i)
			return err
		})
	})
	newest := slices.Max(kept)
	if err != nil || newest <= m.Epoch {
		return err
	}
	now, err := dir.Confirm(ctx, 0)
	if err == nil && now.Epoch < newest {
		err = ErrBehind.Errorf("the directory has the map of epoch %d, and a member that of epoch %d", now.Epoch, newest)
	}
	return cmp.Or(err, error(directory.ErrConflict)) // the map was changed meanwhile
}

// raise raises the floor on all of them, at the same time.
func raise(ctx context.Context, masters []*server, m *directory.Map) error {
	return all(masters, func(i int, s *server) error { return s.raise(ctx, m, m.Partitions[i]) })
}

// all calls a function for all servers at the same time.
func all(servers []*server, call func(i int, s *server) error) error {
	errs := make([]error, len(servers))
	var calls sync.WaitGroup
	for i, s := range servers {
		calls.Go(func() { errs[i] = call(i, s) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

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

// checkNew returns the weights of partitions for the map m, nil for none, or the first error
// in them.
func checkNew(partitions []Partition, m *directory.Map) (weights []int, err error) {
	if len(partitions) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("no partitions are given")
	}
	taken := map[string]bool{}
	present := map[string]int{} // the partitions of members
	if m != nil {
		for _, p := range m.Partitions {
			for _, member := range p.Members() {
				present[member.Addr] = p.ID
			}
		}
	}
	for i, n := range partitions {
		nodes := map[string]bool{}
		for _, member := range n.members() {
			id, is := present[member.Addr]
			switch {
			case is:
				return nil, millrace.ErrBadArgument.Errorf("the server at %s is a member of partition %d already", member.Addr, id).
					WithHint("Look at millrace fleet show: an addition that was cut off may have been finished by an agent.")
			case !listens(member.Addr):
				return nil, millrace.ErrBadArgument.Errorf("partition %d of those given has a member at %q, which is no HOST:PORT", i, member.Addr)
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

// listens reports whether an address is one at which a server can be reached.
func listens(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != ""
}
