package membership

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// Request is a change that an operator wants: [AddReplica], [RemoveReplica], [MoveReplica],
// [ReplaceNode], [DrainNode], [Restart] or [Cancel].
type Request interface {
	// words identify the request. Equal requests have equal words.
	words() []string

	// plan adds the tasks that the request needs.
	plan(d *draft) error
}

// ID returns the plan id of a request: always the same, so that a repeated command finds
// its tasks.
func ID(r Request) string {
	words := r.words()
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return words[0] + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}

// Plan holds the tasks of a request.
type Plan struct {
	ID    string
	Tasks map[int]directory.Task // by partition
	Begun bool                   // whether they are in the map already: an earlier command has published them
}

// Make returns the plan of a request for the present map. It has no tasks if there is
// nothing to do, and those that are left if the request was published before. The error is millrace.ErrBadArgument or millrace.ErrNotFound for a request
// that is wrong, and ErrRefused for one that must not be carried out, at least now.
func Make(m *directory.Map, r Request) (*Plan, error) {
	p := &Plan{ID: ID(r), Tasks: tasks(m, ID(r))}
	if p.Begun = len(p.Tasks) > 0; p.Begun {
		return p, nil
	}
	d := &draft{m: m, tasks: map[int]directory.Task{}}
	if err := r.plan(d); err != nil {
		return nil, err
	}
	for id, task := range d.tasks {
		task.Plan = p.ID
		p.Tasks[id] = task
	}
	return p, p.check(m)
}

// check refuses partitions whose members must not be changed now.
func (p *Plan) check(m *directory.Map) error {
	for _, id := range p.Partitions() {
		switch present := m.Partitions[id]; {
		case cancels(p.Tasks[id]):
		case m.Adding():
			return refused("Wait until that is done; if its command died, repeat it.", "partitions are being added")
		case present.Task != nil:
			return refused("Wait until that is done, or drop what is left of it: millrace fleet cancel "+present.Task.Plan+".", "another change of partition %d is not done: %s", id, present.Task.Plan)
		case present.Leaving != nil:
			return refused("Repeat the command in a few seconds.", "%s is just leaving partition %d", present.Leaving.Addr, id)
		case present.ReadOnly:
			return refused("Repeat the command when it is healthy: millrace fleet show.", "partition %d has no master at the moment", id)
		}
	}
	return nil
}

// Partitions returns the partitions that have a task, in order.
func (p *Plan) Partitions() []int { return sortedKeys(p.Tasks) }

func (p *Plan) equal(q *Plan) bool { return p.ID == q.ID && reflect.DeepEqual(p.Tasks, q.Tasks) }

// Newcomers returns the members that the plan adds, with their partitions.
func (p *Plan) Newcomers() map[directory.Member]int {
	all := map[directory.Member]int{}
	for id, task := range p.Tasks {
		if task.Add != nil {
			all[*task.Add] = id
		}
	}
	return all
}

// Change describes a plan's effect on one partition. Its JSON is a contract.
type Change struct {
	Partition    int      `json:"partition"`
	Comes        string   `json:"comes,omitempty"`    // the address of a new member
	Leaves       string   `json:"leaves,omitempty"`   // the address of a member
	Restarts     []string `json:"restarts,omitempty"` // addresses of members
	MasterBefore string   `json:"master_before"`
	MasterAfter  string   `json:"master_after"` // empty for any member that stays
}

// Changes describes the plan for the map that it was made for.
func (p *Plan) Changes(m *directory.Map) []Change {
	changes := []Change{}
	for _, id := range p.Partitions() {
		task, before := p.Tasks[id], m.Partitions[id].Master.Addr
		c := Change{Partition: id, Leaves: task.Remove, MasterBefore: before, MasterAfter: task.Master}
		if task.Add != nil {
			c.Comes = task.Add.Addr
		}
		if task.Master == "" && task.Remove != before {
			c.MasterAfter = before
		}
		for _, restart := range task.Restart {
			c.Restarts = append(c.Restarts, restart.Addr)
		}
		changes = append(changes, c)
	}
	return changes
}

// draft is a plan in the making.
type draft struct {
	m     *directory.Map
	tasks map[int]directory.Task
}

// after returns the members that a partition has when its task is done.
func (d *draft) after(p *directory.Partition) []directory.Member {
	task := d.tasks[p.ID]
	all := without(p, task.Remove)
	if task.Add != nil {
		all = append(all, *task.Add)
	}
	return all
}

// partition returns a partition of the map.
func (d *draft) partition(id int) (*directory.Partition, error) {
	if err := d.m.Has(id); err != nil {
		return nil, err
	}
	return &d.m.Partitions[id], nil
}

// new refuses servers that cannot be new members.
func (d *draft) new(servers ...directory.Member) error {
	seen := map[string]bool{}
	for _, s := range servers {
		if seen[s.Addr] {
			return millrace.ErrBadArgument.Errorf("the server at %s is given twice", s.Addr)
		}
		seen[s.Addr] = true
		if id := d.m.Home(s.Addr); id >= 0 {
			return millrace.ErrBadArgument.Errorf("the server at %s is a member of partition %d", s.Addr, id)
		}
		if directory.Find(d.m.Spares, s.Addr) != nil {
			return millrace.ErrBadArgument.Errorf("the server at %s is a spare", s.Addr).WithHint("Take it back first: millrace fleet spare rm " + s.Addr)
		}
	}
	return nil
}

// apart refuses a new member on a machine that has one of those which stay.
func apart(id int, stay []directory.Member, add directory.Member) error {
	for _, m := range stay {
		if m.Machine() == add.Machine() {
			return millrace.ErrBadArgument.Errorf("partition %d would have two members on node %s, and would be lost with it: %s and %s", id, add.Machine(), m.Addr, add.Addr).
				WithHint("Use a server on another machine. Servers without @NODE are on the machine of their address.")
		}
	}
	return nil
}

// without returns the members that stay if one leaves.
func without(p *directory.Partition, addr string) []directory.Member {
	return slices.DeleteFunc(p.Members(), func(m directory.Member) bool { return m.Addr == addr })
}

// spare refuses that a member leaves without another one, if the members that stay and
// answer are fewer than writers wait for.
func (d *draft) spare(p *directory.Partition, addr string, force bool) error {
	up := slices.DeleteFunc(without(p, addr), func(m directory.Member) bool { return m.Down })
	need := d.m.Settings.Effective().Confirmed
	switch {
	case len(up) == 0:
		return refused("Add a replica first: millrace fleet replica add.", "%s has the last copy of partition %d", addr, p.ID)
	case len(up)-1 < need && !force:
		return refused("Add a replica first (millrace fleet replica add), or say --force: writes that wait for more replicas than there are fail.",
			"partition %d would have %d live replicas, and writes may wait for %d", p.ID, len(up)-1, need)
	}
	return nil
}

// machines returns the machines of all members, in order.
func machines(m *directory.Map) []string {
	all := map[string]bool{}
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			all[member.Machine()] = true
		}
	}
	return sortedKeys(all)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// addrs returns the addresses and nodes of members, sorted.
func addrs(members []directory.Member) []string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = m.Addr + "@" + m.Node
	}
	slices.Sort(all)
	return all
}
